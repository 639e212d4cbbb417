package awslogs

import "errors"

// Parse reads the log options of a container. The error is of type Mistakes and names all
// that is wrong.
func Parse(info *Info, env Env) (*Options, error) {
	return nil, Mistakes{errors.New("not yet written")}
}
