// Package promapi answers Prometheus's HTTP API over the stored metrics of sessions, with Prometheus's own engine.
//
// The routes, parameters and answers are those of https://prometheus.io/docs/prometheus/latest/querying/api/: query, query_range, series,
// labels, label/{name}/values, metadata and status/buildinfo, by GET and by POST with a form, so that Grafana takes an address below
// which they are for a data source.
//
// What a query may take is bounded: samples in memory, time, and how many are answered at once.
package promapi
