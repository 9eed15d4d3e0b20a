// Package outcome ends a controller's pass: it turns what a pass found out into conditions, events, metrics, a wake-up
// and one conditional status patch.
//
// A step of a pass returns an error that says what it is: Terminal, which only a new spec or a changed dependency can
// cure, or Transient, which is tried again. Everything else is an error of the machinery (a read or a write that
// failed); it is retried and leaves no mark in status. Nothing but a Pass writes the status of an object that it was
// begun with: Finish writes once at the end, and Record once before, where something has to be on record before
// anything moves. Both writes carry the version that was read, so a stale pass gets a conflict and starts over.
package outcome
