// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// A pace lets so many go in a second, and makes up for those that were late.
type pace struct {
	start    time.Time
	interval time.Duration
	gone     int
}

func newPace(perSecond int) *pace {
	if perSecond == 0 {
		return &pace{}
	}
	return &pace{start: time.Now(), interval: time.Second / time.Duration(perSecond)}
}

func (pace *pace) wait() {
	time.Sleep(time.Until(pace.start.Add(time.Duration(pace.gone) * pace.interval)))
	pace.gone++
}
