package faultproxy

// TB is what is needed here of a testing.TB, which is one. The demo plays with a proxy too, and a program that people run
// is linked with no tests.
type TB interface {
	Helper()
	Name() string
	TempDir() string
	Logf(format string, args ...any)
	Fatal(args ...any)
	Failed() bool
	Cleanup(func())
}
