package panels

import (
	"fmt"

	"github.com/rayhistory/historyserver/internal/budget"
	dash "github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/web"
)

const (
	// maxBuilding is how many pages are put together at once without a reservation: how much memory one takes is known
	// only then.
	maxBuilding = 2
	// pageTimes is how many times its texts a page takes: a letter may become five in HTML, and the buffer for all of
	// them grows by doubling.
	pageTimes = 16
	// elementBytes is about what a page has of each panel and each value to choose beside their texts.
	elementBytes = 100
	// littleBytes is what a page may take that reserves nothing.
	littleBytes = 1 << 20
)

// reserved builds a page when its turn comes, and reserves memory for it until release is called. A stored dashboard
// may make a page of tens of megabytes, which is in memory for as long as its client reads it.
func (p *Panels) reserved(r *dash.Request, build func() web.Panels) (page web.Panels, release func(), err error) {
	_, done, err := p.building.Take(r.Context(), r.Session.Ref.Namespace, 0)
	if err != nil {
		return page, nil, err
	}
	defer done()
	page = build()
	bytes := pageTimes * lengthOf(page)
	if bytes <= littleBytes {
		return page, func() {}, nil
	}
	// While it waits for memory it holds none, and lets others be built: it is built again when there is some.
	page = web.Panels{}
	done()
	if release, err = r.Memory.Reserve(r.Context(), budget.Work, bytes); err != nil {
		return page, nil, fmt.Errorf("panels of %s: %w", r.Session.Ref, err)
	}
	return build(), release, nil
}

// lengthOf is about how long the texts of a page are, in bytes.
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
