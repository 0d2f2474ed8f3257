package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/config"
)

func newCheckConfig() *cobra.Command {
	var s settings
	var show, connect bool
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Check a configuration file as serve would, without serving",
		Long: `Reads a configuration file as serve does and prints what it would route to, or
everything that is wrong with it. The exit code is 0 for a valid file, 2 otherwise.
With --connect it also connects to Redis, where the file names one, and says what is
wrong there; the exit code is 1 then.`,
		Example: `  warmroute check-config --config warmroute.yaml
  warmroute check-config --config warmroute.yaml --show
  warmroute check-config --config warmroute.yaml --connect
  warmroute check-config --config warmroute.yaml -o json`,
		Args: cli.NoArgs,
	}
	s.addFile(cmd)
	cmd.Flags().BoolVar(&show, "show", false, "print the configuration in force, defaults included, secrets redacted")
	cmd.Flags().BoolVar(&connect, "connect", false, "connect to Redis and try what a router does there")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asJSON, err := output()
		if err != nil {
			return err
		}
		if s.file == "" {
			return cli.BadUsage(errors.New("check-config needs --config FILE"))
		}
		c, warnings, err := s.load()
		var shared *redisCheck
		if err == nil && connect {
			shared = checkRedis(cmd.Context(), c)
		}
		switch {
		case asJSON:
			if printed := printCheckJSON(cmd.OutOrStdout(), s.file, c, warnings, shared, err); printed != nil {
				return printed
			}
			return cmp.Or(err, shared.failure())
		case err != nil:
			return err
		}
		for _, w := range warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "warmroute: warning: %v\n", w)
		}
		if show {
			_, err := io.WriteString(cmd.OutOrStdout(), c.String())
			return err
		}
		if err := printCheck(cmd.OutOrStdout(), s.file, c); err != nil {
			return err
		}
		return shared.print(cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// printCheck prints what a valid file says.
func printCheck(w io.Writer, file string, c *config.Config) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s is valid: listens on %s%s, admin on %s%s\n", file,
		c.Listen, guards(c.TLS, names(c.Keys, func(k config.Key) string { return k.Name })),
		c.AdminListen, guards(c.AdminTLS, names(c.AdminKeys, func(k config.AdminKey) string { return k.Name })))
	for _, p := range summaries(c) {
		models := strings.Join(p.Models, ", ")
		if models == "" {
			models = "those the backends say they serve"
		}
		fmt.Fprintf(&text, "pool %s: %s, %s, models: %s\n", p.Name, p.Strategy, counted(len(p.Backends), "backend"), models)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// guards says in brackets what guards a port; nothing where nothing does.
func guards(t config.TLS, keys []string) string {
	var all []string
	if t.Enabled() {
		all = append(all, "TLS")
	}
	if t.ClientCAFile != "" {
		all = append(all, "client certificates")
	}
	if len(keys) > 0 {
		all = append(all, "keys: "+strings.Join(keys, ", "))
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

// names are the names of keys.
func names[T any](all []T, name func(T) string) (out []string) {
	for _, one := range all {
		out = append(out, name(one))
	}
	return out
}

// poolSummary is a pool in few words.
type poolSummary struct {
	Name     string   `json:"name"`
	Strategy string   `json:"strategy"`
	Models   []string `json:"models"`
	Backends []string `json:"backends"`
}

func summaries(c *config.Config) []poolSummary {
	all := []poolSummary{}
	if c == nil {
		return all
	}
	for _, spec := range c.PoolSpecs() {
		p := poolSummary{Name: spec.Name, Strategy: spec.Config.Strategy, Models: []string{}, Backends: []string{}}
		for _, m := range spec.Models {
			p.Models = append(p.Models, m.Name)
		}
		for _, b := range spec.Backends {
			url := b.URL
			if b.Rank >= 0 {
				url = fmt.Sprintf("%s#%d", url, b.Rank)
			}
			p.Backends = append(p.Backends, url)
		}
		all = append(all, p)
	}
	return all
}

// finding is one error or warning of a file.
type finding struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// printCheckJSON prints the result for programs.
func printCheckJSON(w io.Writer, file string, c *config.Config, warnings []config.Warning, shared *redisCheck, failure error) error {
	result := struct {
		File     string        `json:"file"`
		Valid    bool          `json:"valid"`
		Errors   []finding     `json:"errors"`
		Warnings []finding     `json:"warnings"`
		Pools    []poolSummary `json:"pools"`
		Redis    *redisCheck   `json:"redis,omitempty"` // only with --connect
	}{File: file, Valid: failure == nil, Errors: []finding{}, Warnings: []finding{}, Pools: summaries(c), Redis: shared}
	for _, err := range config.Each(failure) {
		found := finding{Message: err.Error()}
		if at := (*config.Error)(nil); errors.As(err, &at) {
			found = finding(*at)
		}
		result.Errors = append(result.Errors, found)
	}
	for _, warning := range warnings {
		result.Warnings = append(result.Warnings, finding(warning))
	}
	return printJSON(w, result)
}

// printJSON prints a value indented.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
