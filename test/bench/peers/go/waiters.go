package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"go.etcd.io/etcd/etcdserver/api/v3rpc/rpctypes"
)

// What test/bench/waiters_ours.c does and tells, with a goroutine for each waiter.
func waitForMany(endpoints []string, name string, n int) {
	j := &job{endpoints: endpoints, ttl: 60}
	client := connect(j)
	held := lockAll(client, session(client, j), name, n)
	waiter := session(client, j)
	heap := heapBytes()
	began := time.Now()
	var waiters sync.WaitGroup
	waiters.Add(1)
	go func() {
		defer waiters.Done()
		lockAll(client, waiter, name, n)
	}()
	for count(client, name) < int64(2*n) {
	}
	entered := time.Since(began)
	told := map[string]float64{
		"heap_each":   float64(heapBytes()-heap) / float64(n),
		"all_threads": float64(countFiles("/proc/self/task")),
		"descriptors": float64(countFiles("/proc/self/fd")),
		"connections": float64(countConnections(endpoints[0])),
		"enter_s":     entered.Seconds(),
	}
	began = time.Now()
	for _, mutex := range held {
		go func(mutex *concurrency.Mutex) {
			for mutex.Unlock(background) == rpctypes.ErrTooManyRequests {
				time.Sleep(10 * time.Millisecond)
			}
		}(mutex)
	}
	waiters.Wait()
	told["serve_s"] = time.Since(began).Seconds()
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		giveUp("report", err)
	}
}

func session(client *clientv3.Client, j *job) *concurrency.Session {
	s, err := concurrency.NewSession(client, concurrency.WithTTL(j.ttl))
	if err != nil {
		giveUp("session", err)
	}
	return s
}

func lockAll(client *clientv3.Client, s *concurrency.Session, name string, n int) []*concurrency.Mutex {
	var group sync.WaitGroup
	all := make([]*concurrency.Mutex, n)
	for i := range all {
		all[i] = concurrency.NewMutex(s, fmt.Sprintf("%s-%d", name, i))
		group.Add(1)
		go func(mutex *concurrency.Mutex) {
			defer group.Done()
			err := mutex.Lock(background)
			for err == rpctypes.ErrTooManyRequests { // etcd takes only so many that are not answered yet
				time.Sleep(10 * time.Millisecond)
				err = mutex.Lock(background)
			}
			if err != nil {
				giveUp("lock", err)
			}
		}(all[i])
	}
	group.Wait()
	return all
}

func count(client *clientv3.Client, name string) int64 {
	answer, err := client.Get(background, name, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		giveUp("count", err)
	}
	return answer.Count
}

// In use, stacks included, once the garbage is gone.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func countFiles(folder string) int {
	files, err := os.ReadDir(folder)
	if err != nil {
		giveUp(folder, err)
	}
	return len(files)
}

// The established ones to this server, of the whole machine: nobody else talks to it meanwhile.
func countConnections(endpoint string) int {
	n := 0
	_, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		giveUp(endpoint, err)
	}
	wanted := fmt.Sprintf(":%04X", number(port))
	for _, path := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(table), "\n") {
			fields := strings.Fields(line)
			if len(fields) > 3 && strings.HasSuffix(fields[2], wanted) && fields[3] == "01" {
				n++
			}
		}
	}
	return n
}
