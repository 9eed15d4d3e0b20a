package policy_test

import "flag"

// Properties are tried with the same chances in every test run; make fuzz has them drawn, by -rapid.seed=0.
func init() {
	if err := flag.Set("rapid.seed", "20261130"); err != nil {
		panic(err)
	}
}
