package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// OneOf has shells complete the value of a flag by one of some words.
func OneOf(cmd *cobra.Command, flag string, words ...string) {
	CompleteFlag(cmd, flag, func(context.Context) []string { return words })
}

// CompleteFlag has shells complete the value of a flag by what names returns.
func CompleteFlag(cmd *cobra.Command, flag string, names func(ctx context.Context) []string) {
	// It fails only for a flag that the command does not have, or that is completed already.
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return names(contextOf(cmd)), cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteArg has shells complete a command's only argument by what names returns.
func CompleteArg(cmd *cobra.Command, names func(ctx context.Context) []string) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(contextOf(cmd)), cobra.ShellCompDirectiveNoFileComp
	}
}

// NoArg has shells offer nothing, not even files, for a command's arguments.
func NoArg(cmd *cobra.Command) { cmd.ValidArgsFunction = cobra.NoFileCompletions }

func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
