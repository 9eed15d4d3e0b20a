package soak

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

// weather is what goes wrong between the manager and the API server for a while.
type weather struct {
	name   string
	weight int
	rules  []faultproxy.Rule
	watch  []faultproxy.Distortion
}

// writes are those that make up the state; all is everything, the lease included.
var (
	writes   = faultproxy.Match(faultproxy.StateWrite)
	requests = faultproxy.Every(faultproxy.NotLease, func(r faultproxy.Request) bool { return r.Verb != "watch" })
)

// weathers are all of them. In each some requests get through, but for the last: then nobody is heard of for longer than
// a lease lasts.
var weathers = []weather{
	{name: "fair", weight: 4},
	{name: "slow", weight: 2, rules: []faultproxy.Rule{
		{When: requests, Chance: 0.2, Fault: faultproxy.Slow(300 * time.Millisecond)},
		{When: writes, Chance: 0.05, Fault: faultproxy.Slow(3 * time.Second)},
	}},
	{name: "throttled", weight: 2, rules: []faultproxy.Rule{
		{When: requests, Chance: 0.1, Fault: faultproxy.Fail(http.StatusTooManyRequests)},
		{When: requests, Chance: 0.02, Fault: faultproxy.Throttle("1")},
	}},
	{name: "errors", weight: 3, rules: []faultproxy.Rule{
		{When: writes, Chance: 0.15, Fault: faultproxy.Fail(http.StatusInternalServerError)},
		{When: requests, Chance: 0.05, Fault: faultproxy.Fail(http.StatusServiceUnavailable)},
		{When: writes, Chance: 0.1, Fault: faultproxy.Lost(faultproxy.Fail(http.StatusGatewayTimeout))},
	}},
	{name: "conflicts", weight: 2, rules: []faultproxy.Rule{
		{When: writes, Chance: 0.2, Fault: faultproxy.Fail(http.StatusConflict)},
	}},
	{name: "cuts", weight: 3, rules: []faultproxy.Rule{
		{When: writes, Chance: 0.1, Fault: faultproxy.Cut()},
		{When: writes, Chance: 0.1, Fault: faultproxy.Lost(faultproxy.Cut())},
		{When: requests, Chance: 0.05, Fault: faultproxy.Cut()},
	}},
	{name: "silence", weight: 2, rules: []faultproxy.Rule{
		{When: writes, Chance: 0.02, Fault: faultproxy.Hang()},
		{When: writes, Chance: 0.02, Fault: faultproxy.Lost(faultproxy.Hang())},
	}},
	{name: "events lost", weight: 3, watch: []faultproxy.Distortion{{Lost: 0.2}}},
	{name: "events twice and late", weight: 2, watch: []faultproxy.Distortion{{Twice: 0.5, Late: time.Second}}},
	{name: "all at once", weight: 2, rules: []faultproxy.Rule{
		{When: writes, Chance: 0.1, Fault: faultproxy.Lost(faultproxy.Fail(http.StatusInternalServerError))},
		{When: requests, Chance: 0.1, Fault: faultproxy.Slow(500 * time.Millisecond)},
	}, watch: []faultproxy.Distortion{{Lost: 0.1, Twice: 0.1, Late: 200 * time.Millisecond}}},
	{name: "nobody there", weight: 1, rules: []faultproxy.Rule{{Fault: faultproxy.Cut()}}},
}

// draw chooses one, and how long it lasts.
func draw(by *rand.Rand) (weather, time.Duration) {
	all := 0
	for _, one := range weathers {
		all += one.weight
	}
	n := by.IntN(all)
	for _, one := range weathers {
		if n -= one.weight; n < 0 {
			return one, 4*time.Second + time.Duration(by.IntN(8000))*time.Millisecond
		}
	}
	return weathers[0], time.Second
}

func everything(faultproxy.Request) bool { return true }
