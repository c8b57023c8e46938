package collector

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/collector/scrape"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Options of a collector.
type Options struct {
	Store blob.Creator
	// Root is the prefix of all stored keys.
	Root               string
	Namespace, Cluster string
	// OwnerKind and OwnerName are the RayJob or RayService that created the cluster; empty if the user created it
	// directly.
	OwnerKind, OwnerName string
	// Labels are those that users gave what they created; layout.MaxLabels at most.
	Labels map[string]string
	// Head says that the collector runs on the cluster's head node. Then it takes snapshots and stores the metadata of
	// the sessions.
	Head bool
	// RayTmpDir is Ray's temporary folder.
	RayTmpDir string
	// SpoolDir is the folder for data that is not stored yet, and for state that must survive a restart.
	SpoolDir      string
	SpoolMaxBytes int64
	// Servers must be open. The collector answers with them from Start on, and closes them.
	Servers *Servers
	// Refused remembers batches of events that are refused and not accepted later; nil: none was before.
	Refused *sink.Refused
	// PodIP is the pod's address.
	PodIP string
	// Dashboard is the address of the dashboard, "" for none. Token gives its token.
	Dashboard string
	Token     func() (string, error)
	// Metrics says whether Ray's metrics are read.
	Metrics MetricsMode
	// Ship, Snapshot and Scrape are what these parts leave to the user: intervals and limits. The collector sets the
	// rest. A Scrape.Interval of 0 means never.
	Ship     ship.Options
	Snapshot snapshot.Options
	Scrape   scrape.Options

	// EventBodyBytes bounds the body of a request with events; 0 is the default.
	EventBodyBytes                   int64
	EventCompression, LogCompression layout.Compression
	DeleteShipped                    bool
	// Redact overwrites what must not be stored; nil: nothing.
	Redact *redact.Redactor

	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
}

// MetricsMode says whether Ray's metrics are read.
type MetricsMode string

const (
	// MetricsAuto reads them if a second reader does not disturb the first.
	MetricsAuto MetricsMode = "auto"
	MetricsOn   MetricsMode = "on"
	MetricsOff  MetricsMode = "off"
)
