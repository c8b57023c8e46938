// Package promapi answers Prometheus's HTTP API from the stored metrics of sessions, with Prometheus's own engine.
//
// The routes, parameters and answers are those of https://prometheus.io/docs/prometheus/latest/querying/api/: query,
// query_range, series, labels, label/{name}/values, metadata and status/buildinfo, by GET and by POST with a form. So
// Grafana can use the address above them as a data source.
//
// A query is limited: in samples in memory, in time, and in how many queries are answered at once.
package promapi
