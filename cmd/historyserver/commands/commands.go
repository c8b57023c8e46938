// Package commands has the subcommands that work on the store, such as ls, why, grep and copy. They parse flags and
// print; the work itself is in other packages, most of it below pkg/maintenance.
package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/logging"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
)

// All returns the commands. serveFlags are the flags with which the server is started: the commands accept their
// environment variables.
func All(serveFlags *pflag.FlagSet) []*cobra.Command {
	// All commands share one set of flags, because a process runs only one of them: with a set for each, the start of
	// the server would take a megabyte more.
	shared, flags := new(common), pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	shared.addFlags(flags)
	var commands []*cobra.Command
	for _, newCommand := range []func(*operator) command{
		listCommand, showCommand, statusCommand, whyCommand, compareCommand, fleetCommand, usageCommand, grepCommand,
		exportCommand, importCommand, exportMetricsCommand, compactCommand, noteCommand, removeCommand, verifyCommand,
		copyCommand, indexCommand,
	} {
		o := &operator{common: shared}
		c := newCommand(o)
		o.traits = c.traits // such as whether the command may ask a server instead of the store
		c.GroupID = StoreGroup
		if o.canAskServer {
			c.GroupID = SessionsGroup
		}
		c.Flags().AddFlagSet(flags)
		o.complete(serveFlags, c)
		commands = append(commands, c.Command)
	}
	return commands
}

// Groups of commands in --help.
const (
	SessionsGroup = "sessions"
	StoreGroup    = "store"
	ServerGroup   = "server"
)

// AddTo adds the commands of All, and the groups of --help in their order, to the program, whose own flags are those of
// the server.
func AddTo(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: SessionsGroup, Title: "Look at sessions, in the store or with --server at a history server"},
		&cobra.Group{ID: StoreGroup, Title: "Work on the store"},
		&cobra.Group{ID: ServerGroup, Title: "Serve, and sign in"},
	)
	root.AddCommand(All(root.Flags())...)
}

// command is a command, what it can do, and what it runs after its flags are read and its operator is open. Each has
// its own operator.
type command struct {
	*cobra.Command
	traits
	run func(ctx context.Context, args []string) error
}

// traits say what a command can do.
type traits struct {
	// canAskServer says that the command can ask a history server instead of the store. Such a command uses the
	// operator's history, not its store.
	canAskServer bool
	// clusterMeans is what a cluster's name alone means to the command, for --help; "" is clusterLatest.
	clusterMeans string
	// outputs are the values that --output takes; nil: table, json and yaml; empty: there is no such flag.
	outputs []string
}

// common are the flags that all commands have.
type common struct {
	server      Server
	serverFlags *pflag.FlagSet // of server; only commands that can ask a server have them
	storeFlags  *pflag.FlagSet // of storage and quiet, which are about a store that the command itself reads
	storage     backend.Config
	logging     logging.Options
	output      string
	quiet       time.Duration
}

// addFlags adds the flags, except serverFlags.
func (c *common) addFlags(fs *pflag.FlagSet) {
	c.storeFlags = pflag.NewFlagSet("", pflag.ContinueOnError)
	c.storeFlags.SortFlags = false
	c.storage.AddFlags(c.storeFlags)
	settings.DurationVar(c.storeFlags, &c.quiet, "quiet", lifetime.Idle,
		"a session without an end marker counts as ended when nothing of it was stored for this long")
	fs.AddFlagSet(c.storeFlags)
	c.serverFlags = c.server.flags()
	c.logging.AddFlags(fs)
}
