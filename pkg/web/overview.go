package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// Overview is the page with what one wants to know of a session first.
type Overview struct {
	Frame
	Entry catalog.Entry
	// Began and Ended are when it ran by the clocks of its nodes, up to the moment that is shown or to now.
	Began, Ended time.Time
	Report       *findings.Report
	Build        moment.Build
	Nodes        []*moment.Node
	OfJobs       []moment.Job
	Logs         int
	LogBytes     int64         // of the logs, as stored
	Kept         string        // how long the session is kept, such as "expires in 12 days"; "" if nothing limits it
	Prices       *fleet.Prices // nil: nothing has one
	Runs         []Run         // the newest of the same RayJob, RayService or cluster
}

// maxJobsListed is how many jobs the page lists: the failed ones first.
const maxJobsListed = 30

// OverviewJob is a job on the page.
type OverviewJob struct {
	findings.Job
	Took   time.Duration     // 0: not known
	Reason *findings.Finding // the first of its findings; nil: none
}

func (Overview) template() string { return "overview.html" }

// Cause is the first finding that is an error; nil if there is none.
func (o Overview) Cause() *findings.Finding {
	for _, f := range o.Report.Findings {
		if f.Severity == findings.Error {
			return f
		}
	}
	return nil
}

// Jobs are those that the page lists. A job that had not ended took until the end of what is shown; while the session
// runs, that is not known.
func (o Overview) Jobs() (list []OverviewJob) {
	for _, j := range o.Report.Jobs[:min(len(o.Report.Jobs), maxJobsListed)] {
		job := OverviewJob{Job: j}
		for _, then := range o.OfJobs { // as it was at the moment that is shown
			if then.ID == j.JobID && then.SubmissionID == j.SubmissionID && then.Start > 0 {
				end := then.End
				if end == 0 && !o.Head.shownTo().IsZero() {
					end = o.Ended.UnixNano()
				}
				job.Took = time.Duration(max(0, end-then.Start))
			}
		}
		if len(j.Findings) > 0 {
			job.Reason = o.Report.Finding(j.Findings[0])
		}
		list = append(list, job)
	}
	return list
}

// More is how many jobs are not listed.
func (o Overview) More() int { return max(0, len(o.Report.Jobs)-maxJobsListed) }

// Link is the address of the job's findings.
func (j OverviewJob) Link() string { return "findings?" + url.Values{"job_id": {j.Name()}}.Encode() }

// Logs is the address of the logs that tell of the job, side by side; "" without a submission, as a driver that was
// started by hand may have none.
func (j OverviewJob) Logs() string {
	if j.SubmissionID == "" {
		return ""
	}
	return "logs?" + url.Values{"submission_id": {j.SubmissionID}}.Encode()
}

// Before is the address of the dashboard as it was two minutes before a finding, or half way to it from the session's
// start; "" if the finding's time is not known.
func (o Overview) Before(f *findings.Finding) string {
	first := began(f)
	ran := first.Sub(o.Entry.Start)
	if o.Entry.Start.IsZero() || ran < time.Second {
		return ""
	}
	at := first.Add(-min(2*time.Minute, ran/2))
	return o.Base + o.Entry.Ref.Path() + "at/" + strconv.FormatInt(at.UnixMilli(), 10) + "/"
}

// Ray is the version of Ray, and of Python if it is known.
func (o Overview) Ray() string {
	text := cmp.Or(o.Build.Version, o.Entry.RayVersion, "not known")
	if o.Build.Python != "" {
		text += ", Python " + o.Build.Python
	}
	return text
}

// Lost is how many nodes died although nobody wanted it.
func (o Overview) Lost() (n int) {
	for _, node := range o.Nodes {
		n += boolToInt(node.Lost())
	}
	return n
}

// Resources are what all nodes had together: "48 CPU, 4 GPU, 190 GiB memory".
func (o Overview) Resources() string {
	total := map[string]float64{}
	for _, node := range o.Nodes {
		for _, name := range []string{"CPU", "GPU", "TPU", "memory"} {
			total[name] += node.Amount(name)
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(total)) {
		amount, unit := total[name], name
		if name == "memory" {
			amount, unit = amount/(1<<30), "GiB memory"
		}
		if amount > 0 {
			parts = append(parts, fmt.Sprintf("%.4g %s", amount, unit))
		}
	}
	return strings.Join(parts, ", ")
}

// Cost is what the nodes cost so far, such as "12.30 USD"; "" without prices.
func (o Overview) Cost() string {
	if o.Prices == nil {
		return ""
	}
	sum := 0.0
	for _, n := range o.Nodes {
		began, ended := max(n.Start, o.Began.UnixNano()), o.Ended.UnixNano()
		if n.State == moment.Dead && n.End > 0 {
			ended = min(ended, n.End)
		}
		hours := max(0, time.Duration(ended-began).Hours())
		sum += o.Prices.Of(n.Labels(), packs.AmountsOf(hours, n.Amount))
	}
	return money(sum) + " " + o.Prices.Currency
}

// Owner is what created the cluster, such as "RayJob nightly"; "" if it is a cluster of its own.
func (o Overview) Owner() string {
	if o.Entry.OwnerName == "" || o.Entry.OwnerName == o.Entry.Ref.Cluster {
		return ""
	}
	return o.Entry.OwnerKind + " " + o.Entry.OwnerName
}
