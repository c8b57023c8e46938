// Prints lines of Go's libraries, each form after "\x01form|library|time".
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

func form(name, module, told string) {
	library := "Go " + runtime.Version()[2:]
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			library = module[strings.LastIndex(strings.TrimSuffix(module, "/v2"), "/")+1:] + " " + m.Version
		}
	}
	fmt.Printf("\x01%s|%s|%s\n", name, library, told)
}

func slogs(h slog.Handler) {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		slog.New(h).Log(context.Background(), l, "needle "+strings.ToLower(l.String()), "k", "a b")
	}
}

func zaps(e zapcore.Encoder) {
	for l := zapcore.DebugLevel; l <= zapcore.ErrorLevel; l++ {
		zap.New(zapcore.NewCore(e, zapcore.AddSync(os.Stdout), zapcore.DebugLevel), zap.AddCaller()).Log(l,
			"needle "+l.String(), zap.String("k", "v"))
	}
}

func zeros(l zerolog.Logger) {
	for level := zerolog.DebugLevel; level <= zerolog.ErrorLevel; level++ {
		l.WithLevel(level).Str("k", "v").Msg("needle " + level.String())
	}
	l.WithLevel(zerolog.FatalLevel).Msg("needle fatal")
}

func logruses(f logrus.Formatter) {
	l := logrus.New()
	l.SetLevel(logrus.TraceLevel)
	l.SetFormatter(f)
	l.SetOutput(os.Stdout)
	for _, level := range []logrus.Level{logrus.DebugLevel, logrus.InfoLevel, logrus.WarnLevel, logrus.ErrorLevel} {
		l.Log(level, "needle "+level.String())
	}
}

func main() {
	opts := &slog.HandlerOptions{Level: slog.LevelDebug}
	form("slog: text", "", "full")
	slogs(slog.NewTextHandler(os.Stdout, opts))
	form("slog: JSON", "", "full")
	slogs(slog.NewJSONHandler(os.Stdout, opts))
	form("zap: production", "go.uber.org/zap", "full")
	zaps(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()))
	form("zap: development", "go.uber.org/zap", "full")
	zaps(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()))
	form("zerolog", "github.com/rs/zerolog", "full")
	zeros(zerolog.New(os.Stdout).With().Timestamp().Logger())
	form("zerolog: console", "github.com/rs/zerolog", "minute")
	zeros(zerolog.New(zerolog.ConsoleWriter{Out: os.Stdout}).With().Timestamp().Logger())
	form("logrus: text", "github.com/sirupsen/logrus", "full")
	logruses(&logrus.TextFormatter{DisableColors: true})
	form("logrus: terminal", "github.com/sirupsen/logrus", "none")
	logruses(&logrus.TextFormatter{ForceColors: true})
	form("logrus: JSON", "github.com/sirupsen/logrus", "full")
	logruses(&logrus.JSONFormatter{})
	form("klog", "k8s.io/klog/v2", "year")
	fs := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(fs)
	_ = fs.Set("logtostderr", "false")
	_ = fs.Set("alsologtostderr", "false")
	_ = fs.Set("stderrthreshold", "FATAL")
	klog.SetOutput(os.Stdout)
	klog.Info("needle info")
	klog.Warning("needle warning")
	klog.Error("needle error")
	klog.Flush()
}
