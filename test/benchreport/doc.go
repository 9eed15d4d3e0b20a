// Package benchreport is where the benchmarks of every package put their figures: it prints them as a table, and keeps
// them in bin/bench.json for whoever compares runs.
//
// A package that measures has one Report, its benchmarks add to it, and its TestMain ends with
//
//	os.Exit(benchreport.Main(m, &figures))
//
// What is measured against a machine that is slow or busy is measured against a floor of the same run, by Against.
// `make bench` runs the packages that are named there; each adds to the file what it has measured.
package benchreport
