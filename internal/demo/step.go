package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
)

// step is one thing that the demo shows.
type step struct {
	name  string // as in the JSON
	title string
	does  func(*scene) string // the command that a person would type
	run   func(context.Context, *scene, *record) error
}

// record is what a step has seen.
type record struct {
	facts []fact
	seen  string // the same in one sentence
	shown string // what a command has printed, and the command
}

type fact struct {
	name  string
	value any
}

func (r *record) note(name string, value any) { r.facts = append(r.facts, fact{name, value}) }

// result is how a step went.
type result struct {
	step    step
	ran     bool
	err     error
	elapsed time.Duration
	record  record
}

func (r result) ok() bool { return r.ran && r.err == nil }

// MarshalJSON gives the name, whether it held, the seconds it took, and then what was seen.
func (r result) MarshalJSON() ([]byte, error) {
	members := []fact{{"name", r.step.name}, {"ok", r.ok()}, {"seconds", float64(r.elapsed.Milliseconds()) / 1000}}
	switch {
	case !r.ran:
		members = append(members, fact{"error", "not run: an earlier step did not hold"})
	case r.err != nil:
		members = append(members, fact{"error", r.err.Error()})
	}
	members = append(members, r.record.facts...)
	var b bytes.Buffer
	for i, m := range members {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		b.WriteByte(separator)
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// play runs the steps in order. What comes after a step that did not hold is not run: each begins where the one before
// it has ended.
func play(ctx context.Context, s *scene, steps []step, t teller) []result {
	results := make([]result, 0, len(steps))
	failed := false
	for _, st := range steps {
		r := result{step: st}
		if !failed {
			r.ran = true
			t.begin(st, st.does(s))
			started := time.Now()
			r.err = st.run(ctx, s, &r.record)
			r.elapsed = time.Since(started)
			failed = r.err != nil
			t.end(r)
		}
		results = append(results, r)
	}
	return results
}
