package kwokstage

import (
	"fmt"
	"time"
)

// Behaviour is what the pods of an image do. The zero value is not one.
type Behaviour struct {
	name  string
	delay time.Duration
	lasts bool
}

// flapPeriod is long enough for controllers to see each state of a flapping
// pod and short enough for a test to see several.
const flapPeriod = time.Second

// crashPeriod is the time between restarts; there is no back-off.
const crashPeriod = 500 * time.Millisecond

var (
	// NeverReady pods run, and stay unready.
	NeverReady = Behaviour{name: "NeverReady", lasts: true}
	// CrashLoop pods are restarted again and again and are never ready.
	CrashLoop = Behaviour{name: "CrashLoop", delay: crashPeriod, lasts: true}
	// Flap pods become ready, and from then on are unready and ready in turn.
	Flap = FlapEvery(flapPeriod)
)

// FlapEvery is Flap with a period: so long ready, then so long unready.
func FlapEvery(period time.Duration) Behaviour {
	return Behaviour{name: "Flap", delay: period, lasts: true}
}

// ReadyAfter pods become ready once, so long after they were scheduled. Pods
// that are already running stay as they are.
func ReadyAfter(delay time.Duration) Behaviour {
	return Behaviour{name: "ReadyAfter", delay: delay}
}

func (b Behaviour) String() string {
	if b.delay == 0 {
		return b.name
	}
	return fmt.Sprintf("%s(%s)", b.name, b.delay)
}
