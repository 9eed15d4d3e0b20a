package faultproxy

import "testing"

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
