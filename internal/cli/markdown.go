package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Markdown describes a program's commands as their help does: a page for each command of
// the root, with its subcommands, by file name, and README.md, which begins with intro and
// lists them. Commands that the library adds are left out.
func Markdown(root *cobra.Command, intro string) map[string]string {
	pages := make(map[string]string)
	var index strings.Builder
	fmt.Fprintf(&index, "# %s\n\n%s\n\n%s\n\n| Command | |\n|---|---|\n", root.Name(), generated(root), strings.TrimSpace(intro))
	for _, cmd := range root.Commands() {
		if !documented(cmd) {
			continue
		}
		var page strings.Builder
		fmt.Fprintf(&page, "# %s\n\n%s\n\n", cmd.CommandPath(), generated(root))
		describe(&page, cmd)
		pages[cmd.Name()+".md"] = strings.TrimRight(page.String(), "\n") + "\n"
		fmt.Fprintf(&index, "| [`%s`](%s.md) | %s |\n", cmd.CommandPath(), cmd.Name(), cmd.Short)
	}
	pages["README.md"] = index.String()
	return pages
}

func generated(root *cobra.Command) string {
	return fmt.Sprintf("<!-- Made of the help of %s by make generate; do not edit. -->", root.Name())
}

// documented leaves out what is hidden, and the library's own commands.
func documented(cmd *cobra.Command) bool {
	return !cmd.Hidden && cmd.Name() != "help" && cmd.Name() != "completion"
}

// describe writes what a command's help says, and that of its subcommands.
func describe(w *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(w, "%s.\n\n", cmd.Short)
	if cmd.Long != "" {
		fence(w, "text", cmd.Long)
	}
	if cmd.Runnable() && !cmd.HasSubCommands() {
		fence(w, "text", cmd.UseLine()+"\n\n"+cmd.LocalFlags().FlagUsages())
	}
	if cmd.Example != "" {
		fence(w, "sh", cmd.Example)
	}
	for _, sub := range cmd.Commands() {
		if documented(sub) {
			fmt.Fprintf(w, "## %s\n\n", sub.CommandPath())
			describe(w, sub)
		}
	}
}

// fence writes a block of text as it is, less the indent that all lines have.
func fence(w *strings.Builder, language, text string) {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	indent := -1
	for _, line := range lines {
		if trimmed := strings.TrimLeft(line, " "); trimmed != "" && (indent < 0 || len(line)-len(trimmed) < indent) {
			indent = len(line) - len(trimmed)
		}
	}
	fmt.Fprintf(w, "```%s\n", language)
	for _, line := range lines {
		fmt.Fprintln(w, strings.TrimRight(line[min(max(indent, 0), len(line)):], " "))
	}
	fmt.Fprint(w, "```\n\n")
}
