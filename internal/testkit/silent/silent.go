// Package silent has a log that nobody reads.
package silent

import (
	"io"

	"github.com/sirupsen/logrus"
)

// Logger writes nothing.
func Logger() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}
