package app

import (
	"testing"

	"weir/internal/input/docker/awslogs"
)

func TestDockerProfileAndRole(t *testing.T) {
	s := &dockerOutputs{d: &Docker{o: DockerOptions{InFlight: 1}}}
	k := keyOf(&awslogs.Options{Profile: "p", RoleARN: "arn:aws:iam::1:role/r", CreateStream: true})
	if p := s.params(&k); p.Profile != "p" || !p.UseSTS || p.STSRoleARN != "arn:aws:iam::1:role/r" || p.STSSessionName != "weir" {
		t.Errorf("%+v", p.Params)
	}
	if got, want := k.String(), "cloudwatch_logs profile=p role=arn:aws:iam::1:role/r"; got != want {
		t.Errorf("id %q, want %q", got, want)
	}
	k = keyOf(&awslogs.Options{CreateStream: true})
	if p := s.params(&k); p.UseSTS || p.Profile != "" {
		t.Errorf("without options: %+v", p.Params)
	}
}
