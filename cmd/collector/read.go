package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
)

// read makes the options from the command line, the environment and the settings file. The error names every mistake;
// what is not wrong is set all the same.
func read(args, environ []string) (*options, logrus.FieldLogger, error) {
	o := defaults()
	fs := pflag.NewFlagSet("collector", pflag.ContinueOnError)
	fs.BoolVarP(&o.help, "help", "h", false, "")
	fs.BoolVar(&o.version, "version", false, "")
	o.addFlags(fs)
	mistakes := errors.Join(parse(fs, args), o.load(fs, environ))
	log, err := o.log.New(os.Stderr)
	return o, log, errors.Join(mistakes, err)
}

// load completes the options of a parsed command line.
func (o *options) load(fs *pflag.FlagSet, environ []string) error {
	mistakes := settings.Load(fs, environ)
	if !fs.Changed("ray-cluster-name") { // given and empty, it is a mistake
		o.nameCluster(environ)
	}
	return errors.Join(mistakes, o.complete(fs))
}

// parse sets the flags of the command line that are right.
func parse(fs *pflag.FlagSet, args []string) error {
	var mistakes error
	err := fs.ParseAll(args, func(*pflag.Flag, string) error { return nil }) // stops at the first unknown flag
	fs.ParseErrorsAllowlist.UnknownFlags = true
	again := fs.ParseAll(args, func(f *pflag.Flag, value string) error {
		mistakes = errors.Join(mistakes, fs.Set(f.Name, value))
		return nil
	})
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		err = fmt.Errorf("%w; `collector --help` lists the flags of this version", err)
	}
	if err == nil {
		err = again
	}
	mistakes = errors.Join(err, mistakes)
	if fs.NArg() > 0 {
		err := fmt.Errorf("unexpected argument %q: a flag's value that is true or false is given as --flag=true",
			fs.Arg(0))
		mistakes = errors.Join(mistakes, err)
	}
	return mistakes
}
