package dashboard

// taskRoutes are the routes of the State API's tasks: list, summary and timeline.
func (d *Dashboard) taskRoutes() []Route { return nil }
