// Package taskstate numbers the states of tasks as Ray does. States that only a newer Ray has get numbers when they are met.
package taskstate
