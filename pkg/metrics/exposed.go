package metrics

import "github.com/prometheus/prometheus/model/value"

// exposedSeries is a series of a table. Several of them may be the same series for Prometheus, which treats a label
// with an empty value as missing: when a metric gets a new label, Ray exposes the series that do not have it with an
// empty value.
type exposedSeries struct {
	place  int32 // of the series that it is
	period int   // in which it was exposed last; 0: it is not exposed
	value  float64
	// newer and older are others that are the same series and exposed; -1 is none.
	newer, older int32
}

// exposeSeries gives a series of the table, and so the builder's series that it is, a value of the read under way.
func (b *builder) exposeSeries(series int32, at uint16, v float64) {
	b.linkExposed(series)
	t := &b.tableSeries[series]
	t.value, b.series[t.place].read = v, b.reads
	b.recordChange(t.place, at, v)
}

// linkExposed puts a series of the table first in the list of the exposed ones that are the same series for Prometheus
// (exposedSeries): the first one gave the value that counts. The list begins with s.exposed and goes on with older. It
// is of one period of the target only; a list of an earlier period counts as empty.
func (b *builder) linkExposed(series int32) {
	t := &b.tableSeries[series]
	s := &b.series[t.place]
	period := b.targets[s.target].period
	if t.period == period && s.exposed == series { // it is the first
		return
	}
	b.unlinkExposed(series)
	t.period, t.newer, t.older = period, -1, -1
	if s.period == period && s.exposed >= 0 {
		t.older = s.exposed
		b.tableSeries[s.exposed].newer = series
	}
	s.period, s.exposed = period, series
}

// unlinkExposed removes a series of the table from the list of exposed ones, see linkExposed; its period is 0 then. It
// returns false if the series was not exposed in the present period.
func (b *builder) unlinkExposed(series int32) bool {
	t := &b.tableSeries[series]
	s := &b.series[t.place]
	if t.period == 0 || t.period != b.targets[s.target].period {
		return false
	}
	if t.period = 0; t.newer >= 0 {
		b.tableSeries[t.newer].older = t.older
	} else {
		s.exposed = t.older
	}
	if t.older >= 0 {
		b.tableSeries[t.older].newer = t.newer
	}
	return true
}

// hideSeries says that a series of the table is no longer exposed. Another series of the table that is the same for
// Prometheus may still expose it.
func (b *builder) hideSeries(series int32, at uint16) {
	if !b.unlinkExposed(series) {
		return
	}
	place := b.tableSeries[series].place
	if other := b.series[place].exposed; other >= 0 {
		b.recordChange(place, at, b.tableSeries[other].value)
		return
	}
	b.endSeries(place, at)
}

// endOthers ends the series of a target that the read under way did not have, except for Up if the read failed.
func (b *builder) endOthers(target *builderTarget, failed bool, at uint16) {
	for i := len(target.current) - 1; i >= 0; i-- { // the last takes the place of one that ends
		place := target.current[i]
		if s := &b.series[place]; s.read != b.reads && (!failed || !s.up) {
			b.endSeries(place, at)
		}
	}
}

// endSeries says that a series is no longer exposed.
func (b *builder) endSeries(place int32, at uint16) {
	if s := b.series[place]; s.last >= 0 && !value.IsStaleNaN(s.value) {
		b.recordChange(place, at, staleMarker)
	}
}
