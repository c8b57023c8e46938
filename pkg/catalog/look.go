package catalog

import "context"

// Look lists the markers and looks at the objects of every session, now: for a command that tells of all sessions once, where Start
// would keep on. A session whose objects cannot be looked at is not Described. The error is why the store could not be listed.
func (c *Catalog) Look(ctx context.Context) ([]Entry, error) {
	if err := c.Refresh(ctx); err != nil {
		return nil, err
	}
	c.describeDue(ctx)
	return c.Known().Entries, ctx.Err()
}
