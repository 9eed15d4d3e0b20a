package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// plugin is the name under which kubectl finds the binary: `kubectl gatehouse` runs what is called so on the PATH.
const plugin = "kubectl-gatehouse"

// calledAs makes help and usage name the command as the user has called it: a plugin's users write `kubectl gatehouse`.
func calledAs(root *cobra.Command, program string) *cobra.Command {
	if strings.TrimSuffix(filepath.Base(program), ".exe") != plugin {
		return root
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gatehouse"}
	var examples func(*cobra.Command)
	examples = func(cmd *cobra.Command) {
		lines := strings.Split(cmd.Example, "\n")
		for i, l := range lines {
			if rest, ours := strings.CutPrefix(strings.TrimSpace(l), "gatehouse "); ours {
				lines[i] = "  kubectl gatehouse " + rest
			}
		}
		cmd.Example = strings.Join(lines, "\n")
		for _, sub := range cmd.Commands() {
			examples(sub)
		}
	}
	examples(root)
	return root
}
