package executor

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// Verdict is what all who judge an image say of it together.
type Verdict struct {
	// State says whether anybody judges it.
	State State
	// Outcome is of those that enforce: passed if all of them pass, failed if one of them fails. It is Undecided unless
	// State is Matched, so that what nobody vouches for admits nothing.
	Outcome verify.Outcome
	// Message says by whom it is vouched for, or why it is not; one line, the same for the same signatures.
	Message string
	// Reports are those of everybody who judges it, who enforce first.
	Reports []verify.Report
}

// Verify has an image judged by everybody who does. It takes as long as the slowest of them, and ends with ctx.
func (m Match) Verify(ctx context.Context, subject image.Pinned) Verdict {
	v := Verdict{State: m.State}
	switch m.State {
	case NotReady:
		v.Message = "not every Executor has been compiled since the start"
		return v
	case Unmatched:
		v.Message = "no Executor has " + subject.Repository() + " in scope"
		return v
	case Audited:
		v.Message = "only Executors in mode Audit have " + subject.Repository() + " in scope, and they satisfy nothing"
	}
	members := append(m.Enforced[:len(m.Enforced):len(m.Enforced)], m.Audited...)
	v.Reports = make([]verify.Report, len(members))
	var judges sync.WaitGroup
	for i, s := range members {
		judges.Go(func() { v.Reports[i] = s.verify(ctx, subject) })
	}
	judges.Wait()
	if m.State != Matched {
		return v
	}
	v.Outcome = verify.Passed
	said := map[verify.Outcome][]string{}
	for i, s := range m.Enforced {
		report := v.Reports[i]
		said[report.Outcome] = append(said[report.Outcome], s.String()+": "+report.Summary()+s.lost(report))
		switch {
		case report.Outcome == verify.Failed:
			v.Outcome = verify.Failed
		case report.Outcome == verify.Undecided && v.Outcome == verify.Passed:
			v.Outcome = verify.Undecided
		}
	}
	v.Message = strings.Join(said[v.Outcome], "; ")
	return v
}

// lost says, of an image that does not pass, what the Executor names and could not use: that may be why. What the report
// says already is not repeated.
func (s *Served) lost(report verify.Report) string {
	if report.Outcome == verify.Passed || s.Compiled == nil {
		return ""
	}
	var untold []string
	for _, problem := range s.Compiled.problems {
		if text := problem.Error(); !strings.Contains(report.Decision, text) {
			untold = append(untold, text)
		}
	}
	switch len(untold) {
	case 0:
		return ""
	case 1:
		return " (" + untold[0] + ")"
	}
	return fmt.Sprintf(" (%s, and %d more)", untold[0], len(untold)-1)
}

// verify judges by one Executor; without a build it cannot decide.
func (s *Served) verify(ctx context.Context, subject image.Pinned) verify.Report {
	if s.Compiled != nil {
		return s.Compiled.engine.Verify(ctx, subject)
	}
	why := s.Problem
	if why == "" {
		why = "it is not compiled"
	}
	mode := verify.Mode(s.Mode)
	return verify.Report{
		Executor: reportName(s.Name),
		Subject:  subject.String(),
		Outcome:  verify.Undecided,
		Mode:     mode,
		Enforced: mode != verify.Audit,
		Decision: "cannot decide: " + why,
	}
}
