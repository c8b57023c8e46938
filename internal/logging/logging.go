// Package logging creates the logger of a binary from its flags.
package logging

import (
	"fmt"
	"io"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
)

// Options are the flags of a log.
type Options struct {
	level, format string
}

// AddFlags adds --log-level and --log-format.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	settings.Group(fs, "Log", o.addFlags)
}

func (o *Options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.level, "log-level", "info", "minimum level of log lines: debug, info, warning or error")
	fs.StringVar(&o.format, "log-format", "text", "log format: text or json")
}

// New makes the logger, which writes to w, in the format and from the level that the options say. With an error it also
// returns a logger, of text, with which the error can be logged.
func (o *Options) New(w io.Writer) (logrus.FieldLogger, error) {
	log := logrus.New()
	log.SetOutput(w)
	log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true})
	level, err := logrus.ParseLevel(o.level)
	if err != nil {
		return log, fmt.Errorf("--log-level=%q: want debug, info, warning or error", o.level)
	}
	log.SetLevel(level)
	switch o.format {
	case "text":
	case "json":
		log.SetFormatter(&logrus.JSONFormatter{})
	default:
		return log, fmt.Errorf("--log-format=%q: want text or json", o.format)
	}
	return log, nil
}
