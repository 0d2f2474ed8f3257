package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warmroute/warmroute/internal/cli"
)

var update = flag.Bool("update", false, "write docs/cli instead of comparing with it")

// docsDir is where the pages are that are made of the commands' help.
const docsDir = "../../docs/cli"

const docsIntro = `
The commands and their flags, as ` + "`--help`" + ` shows them. What a flag or setting means in depth is in
[config](../config.md), and what the commands for operators ask in the [RPC guide](../guides/rpc.md).

- **Output** is for people, and with ` + "`-o json`" + ` for programs: the messages of the RPC interface, whose fields are explained in
  [admin.proto](../../proto/warmroute/v1/admin.proto) and do not change their meaning. Tables may; columns in which there is nothing
  to see are left out of them.
- **Exit codes**: 0 done, 1 failed, 2 flags or arguments make no sense, 130 interrupted before it was done.
- **Completion**: ` + "`warmroute completion bash`" + ` (` + "`zsh`, `fish`, `powershell`" + `) prints a script that completes commands, flags, and the values
  of flags: strategies, and, where a router answers, its pools and backends.

  ` + "```sh" + `
  source <(warmroute completion bash)                                  # this shell; needs bash-completion
  warmroute completion bash >/etc/bash_completion.d/warmroute          # every shell
  warmroute completion zsh >"${fpath[1]}/_warmroute"
  warmroute completion fish >~/.config/fish/completions/warmroute.fish
  ` + "```" + `
`

// The pages in docs/cli say what the commands' help says. With -update they are written.
func TestDocs(t *testing.T) {
	pages := cli.Markdown(newRoot(), docsIntro)
	if *update {
		if err := os.RemoveAll(docsDir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(docsDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range pages {
			if err := os.WriteFile(filepath.Join(docsDir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	there, err := os.ReadDir(docsDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range there {
		names = append(names, file.Name())
	}
	if want := slices.Sorted(maps.Keys(pages)); !slices.Equal(names, want) {
		t.Errorf("docs/cli has %q, want %q: run make generate", names, want)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(docsDir, name))
		if err == nil && string(got) != want {
			t.Errorf("docs/cli/%s is not what the help says: run make generate", name)
		}
	}
}
