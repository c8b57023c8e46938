package redact

import (
	"io"

	"github.com/sirupsen/logrus"
)

// Logger returns a log for a driver and its SDK: what they write there comes to log without secrets.
func (r *Redactor) Logger(log logrus.FieldLogger) logrus.FieldLogger {
	to := log.WithFields(nil)
	from := logrus.New()
	from.SetOutput(io.Discard)
	from.SetLevel(to.Logger.GetLevel())
	from.AddHook(forward{to, r})
	return from
}

// forward is a logrus.Hook that passes entries on.
type forward struct {
	to *logrus.Entry
	r  *Redactor
}

func (forward) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook: it logs an entry without secrets.
func (f forward) Fire(e *logrus.Entry) error {
	fields := make(logrus.Fields, len(e.Data))
	for name, value := range e.Data {
		switch v := value.(type) {
		case error:
			value = f.r.Error(v)
		case string:
			value = f.r.Text(v)
		}
		fields[name] = value
	}
	f.to.WithFields(fields).Log(e.Level, f.r.Text(e.Message))
	return nil
}
