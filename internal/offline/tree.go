package offline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss/tree"

	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// Tree draws a verdict for people: who judged the image, which signatures were
// found, and what each verifier made of them.
func Tree(subject image.Pinned, v executor.Verdict) string {
	root := tree.Root(fmt.Sprintf("%s: %s", subject, v.Outcome))
	if len(v.Reports) == 0 || v.State == executor.Audited {
		root.Child(v.Message)
	}
	for _, report := range v.Reports {
		root.Child(reportTree(report))
	}
	return root.String()
}

func reportTree(report verify.Report) *tree.Tree {
	mode := ""
	if !report.Enforced {
		mode = " (audit only)"
	}
	made := tree.Root(report.Executor + mode + ": " + said(report.Outcome.String(), report.Decision))
	for _, store := range report.Stores {
		var lines []string
		for _, problem := range store.Errors { // each of several questions may end in the same
			if line := said("store "+store.Name, problem); !slices.Contains(lines, line) {
				lines = append(lines, line)
				made.Child(line)
			}
		}
	}
	for _, artifact := range report.ArtifactReports {
		made.Child(artifactTree(artifact))
	}
	return made
}

func artifactTree(artifact verify.ArtifactReport) *tree.Tree {
	where := "store " + artifact.Store
	if artifact.Tag != "" {
		where += ", tag " + artifact.Tag
	}
	made := tree.Root(fmt.Sprintf("%s (%s; %s)", artifact.Artifact, orUnknown(artifact.ArtifactType), where))
	for _, result := range artifact.Results {
		line := result.VerifierName + ": " + said(result.Outcome.String(), result.Description)
		if result.Identity != "" && !strings.Contains(result.Description, result.Identity) {
			line += " (" + result.Identity + ")"
		}
		node := tree.Root(line)
		for _, warning := range result.Warnings {
			node.Child("warning: " + warning)
		}
		made.Child(node)
	}
	return made
}

// said is a text with what it is about before it, once: some stand alone elsewhere, and
// say it themselves.
func said(about, text string) string {
	if strings.HasPrefix(text, about+": ") {
		return text
	}
	return about + ": " + text
}

func orUnknown(text string) string {
	if text == "" {
		return "of no stated type"
	}
	return text
}
