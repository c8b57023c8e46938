// Package taskstate numbers the states of tasks as Ray does. States that only a newer Ray has get their numbers when
// they first occur.
package taskstate
