// A worker that locks with etcd's own Go client (clientv3/concurrency). It takes the same arguments and gives the
// same answers as the workers in C; test/bench/worker.h describes both.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

type job struct {
	mode, name                    string
	endpoints                     []string
	contenders, first, total, ttl int
	endUs                         int64
}

type contender struct {
	Number  int     `json:"number"`
	Errors  int     `json:"errors"`
	Losses  int     `json:"losses"`
	AtUs    []int64 `json:"at_us"`
	SpanUs  []int64 `json:"span_us"`
	client  *clientv3.Client
	session *concurrency.Session
	lock    string
}

type report struct {
	Complaint  string       `json:"complaint"`
	Contenders []*contender `json:"contenders"`
}

var (
	background = context.Background()
	complaint  string
	guard      sync.Mutex
)

// The clock that the other workers and bench use; time.Now shows only differences of it.
func clockUs() int64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1 /* CLOCK_MONOTONIC */, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano() / 1000
}

func giveUp(what string, why error) {
	fmt.Fprintf(os.Stderr, "go worker %d: %s: %v\n", os.Getpid(), what, why)
	os.Exit(1)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		giveUp("arguments", err)
	}
	return n
}

func parse() job {
	a := os.Args
	if len(a) != 8 {
		giveUp("arguments", fmt.Errorf("this program is started by bench"))
	}
	return job{mode: a[1], endpoints: strings.Split(a[2], ","), name: a[3],
		contenders: number(a[4]), first: number(a[5]), total: number(a[6]), ttl: number(a[7])}
}

func connect(j *job) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: j.endpoints, DialTimeout: 5 * time.Second})
	if err != nil {
		giveUp("client", err)
	}
	return client
}

// With one lock for all, each contender stands for a process and has a client of its own. Locks of their own are
// the business of one process, with one client. A session is one entry of a queue, so each has its own.
func open(j *job) []*contender {
	var shared *clientv3.Client
	all := make([]*contender, j.contenders)
	for i := range all {
		c := &contender{Number: j.first + i, AtUs: []int64{}, SpanUs: []int64{}, lock: j.name, client: shared}
		if shared == nil || j.mode == "contended" {
			c.client = connect(j)
		}
		if j.mode == "distinct" {
			c.lock = fmt.Sprintf("%s-%d", j.name, c.Number)
			shared = c.client
		}
		session, err := concurrency.NewSession(c.client, concurrency.WithTTL(j.ttl))
		if err != nil {
			giveUp("session", err)
		}
		c.session = session
		all[i] = c
	}
	return all
}

// False: its session is over, and so is its part.
func (c *contender) failed(err error) bool {
	guard.Lock()
	if complaint == "" {
		complaint = err.Error()
	}
	guard.Unlock()
	select {
	case <-c.session.Done():
		c.Losses++
		return false
	default:
		c.Errors++
		time.Sleep(10 * time.Millisecond)
		return true
	}
}

func (c *contender) sample(atUs, spanUs int64) {
	c.AtUs = append(c.AtUs, atUs)
	c.SpanUs = append(c.SpanUs, spanUs)
}

func (c *contender) cycle(j *job) {
	for began := clockUs(); began < j.endUs; began = clockUs() {
		mutex := concurrency.NewMutex(c.session, c.lock)
		err := mutex.Lock(background)
		granted := clockUs()
		if err == nil {
			if j.mode == "contended" {
				c.sample(granted, granted-began)
			}
			err = mutex.Unlock(background)
			if over := clockUs(); err == nil && j.mode != "contended" {
				c.sample(over, over-began)
			}
		}
		if err != nil && !c.failed(err) {
			return
		}
	}
}

// What TryLock does from etcd 3.5 on, which the client of 3.4 does not have: an entry is put into the queue, and
// deleted again if there is an older one.
func (c *contender) tryHeld(j *job) {
	key := fmt.Sprintf("%s/%x", c.lock, c.session.Lease())
	for began := clockUs(); began < j.endUs; began = clockUs() {
		enter := clientv3.OpPut(key, "", clientv3.WithLease(c.session.Lease()))
		answer, err := c.client.Txn(background).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(enter, clientv3.OpGet(c.lock+"/", clientv3.WithFirstCreate()...)).
			Else(clientv3.OpGet(key)).Commit()
		if err == nil && !answer.Succeeded {
			err = fmt.Errorf("%s was left behind by the last try", key)
		}
		if err == nil {
			first := answer.Responses[1].GetResponseRange().Kvs[0]
			if first.CreateRevision == answer.Header.Revision {
				err = fmt.Errorf("%s is held by nobody", c.lock)
			}
			if _, left := c.client.Delete(background, key); err == nil {
				err = left
			}
		}
		if over := clockUs(); err == nil {
			c.sample(over, over-began)
		} else if !c.failed(err) {
			return
		}
	}
}

func (c *contender) waitOnce() {
	began := clockUs()
	err := concurrency.NewMutex(c.session, c.lock).Lock(background)
	granted := clockUs()
	if err == nil {
		c.sample(granted, granted-began)
	} else {
		c.failed(err)
	}
}

func awaitGo(j *job, input *bufio.Reader) {
	fmt.Println("ready")
	line, err := input.ReadString('\n')
	if err != nil {
		os.Exit(0) // bench has ended
	}
	if _, err = fmt.Sscanf(line, "go %d", &j.endUs); err != nil {
		giveUp("not understood: "+line, err)
	}
}

func run(j *job, all []*contender) {
	var group sync.WaitGroup
	switch j.mode {
	case "try":
		all[1].tryHeld(j)
	case "wait":
		all[0].waitOnce()
	case "distinct", "contended":
		for _, c := range all {
			group.Add(1)
			go func(c *contender) {
				defer group.Done()
				c.cycle(j)
			}(c)
		}
		group.Wait()
	}
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == "waiters" {
		waitForMany(strings.Split(os.Args[2], ","), os.Args[3], number(os.Args[4]))
		return
	}
	j := parse()
	all := open(&j)
	input := bufio.NewReader(os.Stdin)
	if j.mode == "try" || j.mode == "hold" {
		if err := concurrency.NewMutex(all[0].session, j.name).Lock(background); err != nil {
			giveUp("the holder's lock", err)
		}
	}
	awaitGo(&j, input)
	run(&j, all)
	if err := json.NewEncoder(os.Stdout).Encode(report{complaint, all}); err != nil {
		giveUp("report", err)
	}
	io.Copy(io.Discard, input)
	for _, c := range all {
		c.session.Close()
	}
}
