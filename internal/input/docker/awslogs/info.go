package awslogs

import (
	"strings"
	"time"
)

// Info is what StartLogging says about a container, in the JSON of the protocol. Its fields
// and methods are what templates can use, so they have the names that they have in Docker.
// ContainerEnv can hold secrets: an Info is not to be stored or logged.
type Info struct {
	Config              map[string]string
	ContainerID         string
	ContainerName       string // with a leading slash
	ContainerEntrypoint string
	ContainerArgs       []string
	ContainerImageID    string // sha256:…
	ContainerImageName  string
	ContainerCreated    time.Time
	ContainerEnv        []string // NAME=value
	ContainerLabels     map[string]string
	LogPath             string
	DaemonName          string

	hostname string // for templates; set by Parse on its copy
}

const shortID = 12

// ID is the container's id in its short form.
func (i *Info) ID() string { return shorten(i.ContainerID) }

// FullID is the container's id.
func (i *Info) FullID() string { return i.ContainerID }

// Name is the container's name without the slash.
func (i *Info) Name() string { return strings.TrimPrefix(i.ContainerName, "/") }

// ImageID is the short form of the image's id, without the algorithm.
func (i *Info) ImageID() string { return shorten(i.ContainerImageID) }

// ImageFullID is the image's id as Docker gives it.
func (i *Info) ImageFullID() string { return i.ContainerImageID }

// ImageName is the name of the image as it was written when the container was created.
func (i *Info) ImageName() string { return i.ContainerImageName }

// Command is the entry point with its arguments.
func (i *Info) Command() string {
	return strings.Join(append([]string{i.ContainerEntrypoint}, i.ContainerArgs...), " ")
}

// Hostname is the name of the host.
func (i *Info) Hostname() (string, error) { return i.hostname, nil }

// ExtraAttributes is empty: the options that would fill it (labels, env) are refused, as
// awslogs refuses them.
func (i *Info) ExtraAttributes(func(string) string) (map[string]string, error) {
	return map[string]string{}, nil
}

// shorten cuts an id as Docker does: the algorithm goes, 12 characters stay.
func shorten(id string) string {
	if _, digest, ok := strings.Cut(id, ":"); ok {
		id = digest
	}
	return id[:min(len(id), shortID)]
}
