package faultproxy

import (
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is what goes wrong with a request. The zero Fault is none.
type Fault struct {
	delay      time.Duration
	ends       ending
	commit     bool // the API server gets the request first, and its answer is thrown away
	code       int
	retryAfter string
}

type ending int

const (
	passed ending = iota
	answered
	cut
	hung
)

// Slow passes a request on after a while; a write also when its client has left or died meanwhile.
func Slow(d time.Duration) Fault { return Fault{delay: d} }

// Fail answers a request with a status code, as the API server would, and does not pass it on. A 429 carries no
// Retry-After: the client hands it to its caller.
func Fail(code int) Fault { return Fault{ends: answered, code: code} }

// Throttle answers 429 with a Retry-After in seconds: client-go repeats the request by itself.
func Throttle(seconds string) Fault {
	return Fault{ends: answered, code: http.StatusTooManyRequests, retryAfter: seconds}
}

// Cut ends the connection instead of answering; the API server does not see the request.
func Cut() Fault { return Fault{ends: cut} }

// Hang answers nothing until the client gives up; the API server does not see the request.
func Hang() Fault { return Fault{ends: hung} }

// Lost passes the request on and throws the answer away: what the client gets is the fault, though what it asked for
// was done.
func Lost(f Fault) Fault {
	f.commit = true
	return f
}

// Rule says which requests have which fault.
type Rule struct {
	// When chooses requests; nil chooses all.
	When Match
	// Skip lets the first so many of them pass.
	Skip int
	// Times bounds how many get the fault; 0 is no bound.
	Times int
	// Chance is how probable it is that one gets it, decided by the seed; 0 is for certain.
	Chance float64
	// Fault is what they get.
	Fault Fault
}

// script decides by rules. It is not safe for concurrent use.
type script struct {
	seed  uint64
	rules []Rule
	met   []int // requests that each rule has met
	given []int // faults that each rule has given
}

func newScript(seed uint64, rules []Rule) *script {
	return &script{seed: seed, rules: rules, met: make([]int, len(rules)), given: make([]int, len(rules))}
}

// decide returns the fault of the first rule that gives one.
func (s *script) decide(r Request) Fault {
	for i, rule := range s.rules {
		if rule.When != nil && !rule.When(r) {
			continue
		}
		s.met[i]++
		if s.met[i] <= rule.Skip || (rule.Times > 0 && s.given[i] >= rule.Times) {
			continue
		}
		if rule.Chance > 0 && !chance(s.seed, uint64(i), uint64(s.met[i]), rule.Chance) {
			continue
		}
		s.given[i]++
		return rule.Fault
	}
	return Fault{}
}

// reasons are those that the API server gives with a code.
var reasons = map[int]metav1.StatusReason{
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusGone:                metav1.StatusReasonExpired,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

// status is the API's own form of an answer that is no success.
func status(code int, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Code:     int32(code),
		Reason:   reasons[code],
		Message:  message,
	}
}
