package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
)

// read makes the options from the command line, the environment and the settings file, and the logger from the options.
// The error names every mistake; settings that are right are set all the same. Names that are no settings are no
// mistakes by themselves: options.unknown has them.
func read(args, environ []string) (*options, logrus.FieldLogger, error) {
	o := defaults()
	fs := pflag.NewFlagSet("collector", pflag.ContinueOnError)
	fs.BoolVarP(&o.help, "help", "h", false, "")
	fs.BoolVar(&o.version, "version", false, "")
	o.addFlags(fs)
	unknown, mistakes := parse(fs, args)
	mistakes = errors.Join(mistakes, o.load(fs, environ))
	o.unknown = errors.Join(unknown, o.unknown)
	if o.exitOnError || mistakes != nil { // a mistake may come from a name that is mistyped, and so unknown
		mistakes = errors.Join(o.unknown, mistakes)
	}
	log, err := o.log.New(os.Stderr)
	return o, log, errors.Join(mistakes, err)
}

// load completes the options of a parsed command line from the environment (environ, NAME=value) and the settings file.
// An unknown name of a setting may be of a later version, whose chart or webhook sets it for all collectors: that alone
// must not keep this one from storing. But what was to be redacted must not be stored: so unknown names are mistakes if
// one of them, or a setting's name that it is like, has "redact" in it.
func (o *options) load(fs *pflag.FlagSet, environ []string) error {
	unknown, mistakes := settings.LoadKnown(fs, environ)
	if unknown != nil && strings.Contains(strings.ToLower(unknown.Error()), "redact") {
		mistakes = errors.Join(unknown, mistakes)
	} else {
		o.unknown = unknown
	}
	if !fs.Changed("ray-cluster-name") { // a name that was given as "" is a mistake, which complete reports
		o.nameCluster(environ)
	}
	return errors.Join(mistakes, o.complete(fs))
}

// parse parses the flags of the command line, and sets those that are right. unknown names the first flag that this
// version does not know. Unknown flags that may be about redaction are mistakes (see load).
//
// It parses twice: once to find an unknown flag, where parsing stops, and once to set all flags beside such ones.
func parse(fs *pflag.FlagSet, args []string) (unknown, mistakes error) {
	err := fs.ParseAll(args, func(*pflag.Flag, string) error { return nil })
	fs.ParseErrorsAllowlist.UnknownFlags = true
	errOfAll := fs.ParseAll(args, func(f *pflag.Flag, value string) error {
		mistakes = errors.Join(mistakes, fs.Set(f.Name, value))
		return nil
	})
	if _, ok := errors.AsType[*pflag.NotExistError](err); ok {
		unknown = settings.FlagError(err, fs, "collector")
		err = errOfAll
	}
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		name, dashed := strings.CutPrefix(flag, "--")
		if dashed && strings.Contains(strings.ToLower(name), "redact") && fs.Lookup(name) == nil {
			err = errors.Join(fmt.Errorf("unknown flag: %s", flag), err)
			break
		}
	}
	mistakes = errors.Join(err, mistakes)
	if fs.NArg() > 0 {
		err := fmt.Errorf("unexpected argument %q: a flag's value that is true or false is given as --flag=true",
			fs.Arg(0))
		mistakes = errors.Join(mistakes, err)
	}
	return unknown, mistakes
}
