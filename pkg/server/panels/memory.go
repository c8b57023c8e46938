package panels

import (
	"fmt"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/turns"
	dash "github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/web"
)

const (
	// maxBuilding is how many pages are built at once before their memory is reserved, because a page has to be built
	// for its size to be known.
	maxBuilding = 2
	// pageTimes is how many times the length of its texts a page takes in memory: a character may become five in HTML,
	// and the buffer with the HTML grows by doubling.
	pageTimes = 16
	// elementBytes is about what the HTML of a panel, or of a value to choose, has beside its texts.
	elementBytes = 100
	// littleBytes is how much memory a page may take without a reservation.
	littleBytes = 1 << 20
)

// buildReserved calls build when it is the namespace's turn, and reserves memory for the page until release is called.
// A stored dashboard may make a page of tens of megabytes, which is in memory for as long as its client reads it. build
// may be called twice.
func (p *Panels) buildReserved(r *dash.Request, build func() web.Panels) (page web.Panels, release func(), err error) {
	_, done, err := p.building.Take(r.Context(), r.Session.Ref.Namespace, turns.NoLimit)
	if err != nil {
		return page, nil, err
	}
	defer done()
	page = build()
	bytes := pageTimes * lengthOf(page)
	if bytes <= littleBytes {
		return page, func() {}, nil
	}
	// While it waits for memory, the page must not take any, and others may be built. It is built again afterwards.
	page = web.Panels{}
	done() // the deferred call then does nothing
	if release, err = r.Memory.Reserve(r.Context(), budget.Work, bytes); err != nil {
		return page, nil, fmt.Errorf("panels of %s: %w", r.Session.Ref, err)
	}
	return build(), release, nil
}

func lengthOf(page web.Panels) (n int64) {
	add := func(texts ...string) {
		n += elementBytes
		for _, text := range texts {
			n += int64(len(text))
		}
	}
	add(page.Title)
	for _, row := range page.Rows {
		add(row.Title)
		for _, panel := range row.Panels {
			add(panel.Title, panel.Description, panel.Drawing)
		}
	}
	for _, v := range page.Variables {
		add(v.Name, v.Title, v.Label, v.Match, v.Expr)
		for _, value := range v.Values {
			add(value)
		}
	}
	return n
}
