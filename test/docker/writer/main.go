// Command writer is what runs in the containers of the tests: it writes lines as it is told.
// Each argument is a step "verb" or "verb:key=value,key=value":
//
//	lines:n=1000,id=a,rate=500,size=100,to=out   numbered lines, see Line; n=0: until SIGTERM.
//	      to=err: to standard error, to=both: odd ones there. rate=0: as fast as it goes.
//	      burst=16: so many lines a write.
//	text:"a\nb"          this text, as a Go literal; err:"…" to standard error
//	long:n=16384,nl=1,to=out   one line of n bytes, see Long; nl=0: without the newline
//	weave:n=50000        a line of n bytes to each output, half of it in turn
//	binary:n=1000,seed=1 n bytes that are often no UTF-8, none of them a newline; then one
//	json:n=10,id=a       lines that are JSON objects
//	trace:n=10,id=a      events of several lines, each begun by a line with a date
//	dated:n=10,id=a,from=1764500000,step=60   numbered lines behind a date: the second from, and
//	      step seconds later each
//	sleep:ms=100
//	hold                 wait for SIGTERM
//	await                wait for SIGUSR1
//	exit:code=3
//
// After SIGTERM "lines" ends; it always ends with a line that says how many there were and
// how long the slowest write took: a writer that is held up by its log driver says so.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/test/docker/written"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	begin := make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR1)
	for _, arg := range os.Args[1:] {
		if arg == "await" {
			<-begin
			continue
		}
		if err := step(arg, stop); err != nil {
			fmt.Fprintf(os.Stderr, "writer: %s: %v\n", arg, err)
			os.Exit(2)
		}
	}
}

// params are the key=value of a step.
type params map[string]string

func (p params) num(key string, otherwise int) int {
	n, err := strconv.Atoi(p[key])
	if err != nil {
		return otherwise
	}
	return n
}

func (p params) to() io.Writer {
	if p["to"] == "err" {
		return os.Stderr
	}
	return os.Stdout
}

func step(arg string, stop chan os.Signal) error {
	verb, rest, _ := strings.Cut(arg, ":")
	p := params{}
	if verb != "text" && verb != "err" {
		for _, kv := range strings.Split(rest, ",") {
			key, value, _ := strings.Cut(kv, "=")
			p[key] = value
		}
	}
	var err error
	switch n := p.num("n", 1); verb {
	case "lines":
		err = lines(p, stop)
	case "text", "err":
		var text string
		if text, err = strconv.Unquote(rest); err == nil {
			_, err = io.WriteString(map[string]io.Writer{"text": os.Stdout, "err": os.Stderr}[verb], text)
		}
	case "long":
		text := written.Long(n)
		if p.num("nl", 1) == 1 {
			text += "\n"
		}
		_, err = io.WriteString(p.to(), text)
	case "weave":
		err = weave(written.Long(n))
	case "binary":
		_, err = os.Stdout.Write(append(written.Binary(n, uint64(p.num("seed", 1))), '\n'))
	case "json":
		err = each(n, func(i int) string { return written.JSON(p["id"], i) })
	case "trace":
		err = each(n, func(i int) string { return written.Trace(p["id"], i) })
	case "dated":
		err = each(n, func(i int) string { return written.Dated(p["id"], i, int64(p.num("from", 0)+i*p.num("step", 1))) })
	case "sleep":
		time.Sleep(time.Duration(p.num("ms", 0)) * time.Millisecond)
	case "hold":
		<-stop
	case "exit":
		os.Exit(p.num("code", 0))
	default:
		err = fmt.Errorf("there is no such step")
	}
	return err
}

// each writes n texts with a newline behind each.
func each(n int, text func(int) string) error {
	w := bufio.NewWriter(os.Stdout)
	for i := range n {
		if _, err := w.WriteString(text(i) + "\n"); err != nil {
			return err
		}
	}
	return w.Flush()
}

// weave writes a line to both outputs, so that the parts of both lines mix on their way.
func weave(line string) error {
	for _, part := range []string{line[:len(line)/2], line[len(line)/2:] + "\n"} {
		for _, w := range []io.Writer{os.Stdout, os.Stderr} {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond) // the engine reads the outputs independently
		}
	}
	return nil
}

// lines writes numbered lines.
func lines(p params, stop chan os.Signal) error {
	var (
		n, rate, size = p.num("n", 1), p.num("rate", 0), p.num("size", 0)
		burst         = max(p.num("burst", 1), 1)
		id            = p["id"]
		begin         = time.Now()
		slowest       time.Duration
		buf           []byte
		i             int
	)
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	for n == 0 || i < n {
		if rate > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(float64(i) / float64(rate) * float64(time.Second)))))
		}
		if stopped() {
			break
		}
		w := p.to()
		if p["to"] == "both" && i%2 == 1 {
			w = os.Stderr
		}
		buf = buf[:0]
		for k := 0; k < burst && (n == 0 || i < n); k++ {
			buf = append(written.AppendLine(buf, id, i, size), '\n')
			i++
		}
		at := time.Now()
		if _, err := w.Write(buf); err != nil {
			return err
		}
		slowest = max(slowest, time.Since(at))
	}
	_, err := fmt.Fprintf(os.Stdout, "%s\n", written.End(id, i, slowest))
	return err
}
