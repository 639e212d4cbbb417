// Package app puts weir together: it alone knows the plug-ins. It turns a configuration
// into running inputs, routes, buffers and deliveries, replaces them on reload, and stops
// them in order. The Docker logging driver is another composition of the same parts.
//
// # Where things are
//
// A configuration is read once into a Plan, which opens nothing; an App, or a Drain, builds
// what the Plan says.
//
// Section to plan: load.go (files, environment), plan.go (Plan, contexts, rules), input.go (sources, and
// running them), output.go (what all outputs have: id, buffer, secondary), outputtypes.go (the one switch
// over @type), filter.go, stores.go (copy, roundrobin), route.go (@type route), hold.go (detect_exceptions,
// and holds of filters), labels.go (mistakes about labels), workers.go (worker sections), dump.go (sections
// as text, to compare them), fetch.go (includes over HTTP), summary.go (what weir check prints).
//
// Plan to running: app.go (App: New, Start, Stop), running.go (an output at work, and which running one
// a new plan goes on with), outputqueue.go (buffer, parking lot and delivery of an output), outputbacklog.go
// and livefirst.go (its second queue, with drain_order live_first), resolver.go (tag to route), emit.go (what
// sources emit to, also across a reload), reload.go, discard.go (a secondary that throws away).
//
// Around it: status.go (for the status page), monitor.go (for Fluentd's pages), ownlog.go and ownlogreach.go
// (events of the own log, and which lines must not become any), drain.go and orphans.go (buffers of no
// output), import.go and importcmd.go (what Fluentd's buffers have left).
//
// The logging driver: docker.go (Docker: Start, Stop, Open), dockercontainer.go (the spool of a container and
// its delivery), dockerqueue.go (a buffer and its delivery), dockerlive.go (live-first), dockeroutput.go (one
// output for all containers of the same settings), dockerlimits.go (what all spools may take together),
// dockerlosses.go (what was lost while no spool was open), dockersleep.go (ended containers that wait),
// dockershared.go (several containers in one stream), dockerfile.go (a container's file, and what an earlier
// process left), dockerstatus.go, dockerweb.go (the page), dockerlog.go (one line for many containers).
package app
