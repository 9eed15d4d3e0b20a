package faultproxy

import (
	"fmt"
	"strings"
	"testing"
)

func TestWhatIsLeftToChanceIsTheSameUnlessOneAsks(t *testing.T) {
	for given, want := range map[string]uint64{"": usual, "0": 0, "679405912422907020": 679405912422907020} {
		if got, err := seedFrom(given); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", given, got, err, want)
		}
	}
	first, _ := seedFrom("random")
	second, err := seedFrom("random")
	if err != nil || first == second {
		t.Errorf("drawn were %d and %d, %v", first, second, err)
	}
	for _, wrong := range []string{"-1", "dice", "1.5"} {
		if _, err := seedFrom(wrong); err == nil {
			t.Errorf("%q was taken for a seed", wrong)
		}
	}
}

// failing is a test that has failed, and what it has printed.
type failing struct {
	TB
	printed strings.Builder
	cleanup func()
}

func (f *failing) Helper()                         {}
func (f *failing) Name() string                    { return "TestOfChance/one part" }
func (f *failing) Failed() bool                    { return true }
func (f *failing) Cleanup(do func())               { f.cleanup = do }
func (f *failing) Logf(format string, args ...any) { fmt.Fprintf(&f.printed, format+"\n", args...) }

func TestAFailureSaysHowToMeetItAgain(t *testing.T) {
	t.Setenv(SeedEnv, "7")
	f := &failing{}
	if seed := Seed(f, "GATEHOUSE_FIRE=all", "GATEHOUSE_LAG="); seed != 7 {
		t.Errorf("the seed is %d", seed)
	}
	f.cleanup()
	const want = "GATEHOUSE_FIRE=all GATEHOUSE_SEED=7 go test -timeout 0 -run '^TestOfChance$' ./test/faultproxy\n"
	if got := f.printed.String(); !strings.HasSuffix(got, want) {
		t.Errorf("printed\n%s\nwant at its end\n%s", got, want)
	}
}
