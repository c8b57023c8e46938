package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/strictyaml"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Prices say what nodes cost, and what namespaces may cost. What nodes offered to Ray is paid, used or not.
type Prices struct {
	Currency string `yaml:"currency"` // a word or a sign after amounts
	Price    `yaml:",inline"`
	// Nodes are those with prices of their own: the first whose labels a node has counts.
	Nodes []NodePrice `yaml:"nodes"`
	// Budgets are those of namespaces: the first that matches counts.
	Budgets []Budget `yaml:"budgets"`
}

// Price is what an hour costs: of a node, and of each CPU, GPU and GiB of memory that it offers.
type Price = packs.Amounts

// NodePrice is the price of nodes with all of these labels. Other labels than packs.PriceLabels are not known.
type NodePrice struct {
	Labels map[string]string `yaml:"labels"`
	Price  `yaml:",inline"`
}

// Budget is what each namespace that matches a pattern of path.Match may cost in a month.
type Budget struct {
	Namespace string  `yaml:"namespace"`
	Month     float64 `yaml:"month"`
}

// maxCurrency bounds the name of the currency, in characters.
const maxCurrency = 12

// ReadPrices reads prices from the YAML file with this name; nil, for no prices, if the name is "".
func ReadPrices(name string) (*Prices, error) {
	if name == "" {
		return nil, nil
	}
	text, err := settings.ReadFile(name)
	if err != nil {
		return nil, err
	}
	p := &Prices{}
	if err = strictyaml.Decode(text, p, "prices"); err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// check returns an error that says what is wanted instead if the prices cannot be used: without a currency of printable
// characters, with a price that is negative or huge, with labels that are not packs.PriceLabels, with a wrong budget,
// or if all prices are 0.
func (p *Prices) check() error {
	if n := utf8.RuneCountInString(p.Currency); n == 0 || n > maxCurrency {
		return fmt.Errorf("currency: %q: want a word of at most %d characters, such as USD", p.Currency, maxCurrency)
	}
	for _, r := range p.Currency {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("currency: %q: want a word such as USD", p.Currency)
		}
	}
	sum := 0.0
	for _, nodePrice := range append([]NodePrice{{Price: p.Price}}, p.Nodes...) {
		for _, v := range nodePrice.Each() {
			if !(*v >= 0 && *v < 1e9) { // also true for NaN
				return fmt.Errorf("%v: want a price per hour, 0 or more", *v)
			}
			sum += *v
		}
	}
	for _, nodePrice := range p.Nodes {
		if len(nodePrice.Labels) == 0 {
			return errors.New("nodes: want labels for each price: a price of all nodes stands outside of nodes")
		}
		for name := range nodePrice.Labels {
			if !slices.Contains(packs.PriceLabels, name) {
				return fmt.Errorf("nodes: label %q: want one of %v", name, packs.PriceLabels)
			}
		}
	}
	for _, b := range p.Budgets {
		if _, err := path.Match(b.Namespace, ""); err != nil || b.Namespace == "" {
			return fmt.Errorf("budgets: namespace: %q: want a name; * stands for any text", b.Namespace)
		}
		if !(b.Month > 0 && b.Month < 1e15) {
			return fmt.Errorf("budgets: month: %v: want an amount of money", b.Month)
		}
	}
	if sum == 0 {
		return errors.New("want a price above 0 of node, cpu, gpu or memory")
	}
	return nil
}

// Of returns what amounts times hours of nodes with these labels cost; 0 without prices. The first of p.Nodes whose
// labels these are has the price, or else p itself.
func (p *Prices) Of(labels map[string]string, a packs.Amounts) (cost float64) {
	if p == nil {
		return 0
	}
	price := p.Price
	for _, nodePrice := range p.Nodes {
		if nodePrice.matches(labels) {
			price = nodePrice.Price
			break
		}
	}
	hours := a.Each()
	for i, perHour := range price.Each() { // in the order of hours
		cost += *perHour * *hours[i]
	}
	return cost
}

// Costs returns what ended sessions cost, by the prices. Sessions whose hours are not known are left out; without
// prices the map is empty.
func (f *Fleet) Costs(ctx context.Context, refs []layout.Session) (map[layout.Session]float64, error) {
	costs := make(map[layout.Session]float64)
	if f.Prices == nil || f.Packs == nil {
		return costs, nil
	}
	unpacked := f.unpackedFacts()
	days := make(map[time.Time][]layout.Session)
	for _, ref := range refs {
		days[layout.PackDay(ref)] = append(days[layout.PackDay(ref)], ref)
	}
	for day, sessions := range days {
		listed, err := f.Packs.ListDay(ctx, day)
		if err != nil {
			return nil, err
		}
		rows, release, err := f.readDay(ctx, day, listed)
		if err != nil {
			return nil, err
		}
		for _, ref := range sessions {
			facts := unpacked.factsOf(rows, ref)
			if _, known := hoursOf(facts); known {
				costs[ref] = f.Prices.costOfSession(facts.Hours)
			}
		}
		release()
	}
	return costs, nil
}

// matches reports whether a node has all labels that the price asks for.
func (n NodePrice) matches(labels map[string]string) bool {
	for name, value := range n.Labels {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// costOfSession returns what the nodes of a session cost. The part of the hours that h.Nodes does not have, because the
// labels of its nodes are not known, is counted at the price for nodes without labels. An infinite sum becomes 0.
func (p *Prices) costOfSession(h *packs.Hours) (sum float64) {
	rest := h.Amounts // without those of h.Nodes
	for _, n := range h.Nodes {
		sum += p.Of(n.Labels, n.Amounts)
		known := n.Each()
		for i, left := range rest.Each() {
			*left = max(0, *left-*known[i])
		}
	}
	sum += p.Of(nil, rest)
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return 0
	}
	return sum
}

// monthlyBudget returns what a namespace may cost in a month; 0: it has none.
func (p *Prices) monthlyBudget(namespace string) float64 {
	for _, b := range p.Budgets {
		if ok, _ := path.Match(b.Namespace, namespace); ok {
			return b.Month
		}
	}
	return 0
}

// monthsOf returns how many months there are from one time to another: of a month in part, its share of the month
// counts.
func monthsOf(from, to time.Time) (months float64) {
	for at := from.UTC(); at.Before(to); {
		first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		next := first.AddDate(0, 1, 0)
		end := next
		if to.Before(next) {
			end = to
		}
		months += end.Sub(at).Hours() / next.Sub(first).Hours()
		at = end
	}
	return months
}

// currency is the word after amounts; "" without prices.
func (p *Prices) currency() string {
	if p == nil {
		return ""
	}
	return p.Currency
}
