# frozen_string_literal: true

require "monitor"

# Threads and what they wait for each other with. The other side is always a
# real thread; between fibers all of these park just as well.
WhatBlocks::Catalogue.define "Threads, locks and queues" do
  wait = WhatBlocks::Stage::WAIT

  waits("Thread#join") { measure(Thread, later { 1 }) { |thread| thread.join } }
  waits("Thread#join", "limit passes") do
    thread = Thread.new { sleep 5 }
    measure(nil) { thread.join(wait) }
  end
  waits("Thread#value") { measure(1, later { 1 }) { |thread| thread.value } }
  waits("Mutex#lock") do
    mutex = held(Mutex.new, :lock, :unlock)
    measure(mutex) { mutex.lock }
  end
  waits("Mutex#synchronize") do
    mutex = held(Mutex.new, :lock, :unlock)
    measure(:inside) { mutex.synchronize { :inside } }
  end
  waits("Mutex#sleep") do
    mutex = Mutex.new.tap(&:lock)
    measure(nil) { mutex.sleep(wait) } # its time is up
  end
  quick("Mutex#try_lock") do
    mutex = held(Mutex.new, :lock, :unlock)
    measure(false) { mutex.try_lock }
  end
  waits("Monitor#enter") do
    monitor = held(Monitor.new, :enter, :exit)
    measure(nil) { monitor.enter }
  end
  waits("Monitor#synchronize") do
    monitor = held(Monitor.new, :enter, :exit)
    measure(:inside) { monitor.synchronize { :inside } }
  end
  waits("MonitorMixin::ConditionVariable#wait") do
    monitor = Monitor.new
    condition = monitor.new_cond
    later { monitor.synchronize { condition.signal } }
    measure(true) { monitor.synchronize { condition.wait } }
  end
  waits("ConditionVariable#wait") do
    mutex, condition = Mutex.new, ConditionVariable.new
    later { mutex.synchronize { condition.signal } }
    measure(Object) { mutex.synchronize { condition.wait(mutex) } }
  end
  waits("ConditionVariable#wait", "timeout passes") do
    mutex, condition = Mutex.new, ConditionVariable.new
    measure(nil) { mutex.synchronize { condition.wait(mutex, wait) } }
  end
  waits("Queue#pop") do
    queue = Queue.new
    later { queue << 1 }
    measure(1) { queue.pop }
  end
  waits("Queue#pop", "timeout passes") { measure(nil, Queue.new) { |queue| queue.pop(timeout: wait) } }
  waits("Queue#pop", "closed meanwhile") do
    queue = Queue.new
    later { queue.close }
    measure(nil) { queue.pop }
  end
  waits("SizedQueue#push", "full") do
    queue = SizedQueue.new(1) << 1
    later { queue.pop }
    measure(queue) { queue.push(2) }
  end
  waits("SizedQueue#push", "full, timeout passes") do
    queue = SizedQueue.new(1) << 1
    measure(nil) { queue.push(2, timeout: wait) }
  end
  waits("SizedQueue#pop") do
    queue = SizedQueue.new(1)
    later { queue << 1 }
    measure(1) { queue.pop }
  end
  quick("Queue#pop", "non_block") { measure(ThreadError, Queue.new) { |queue| raised { queue.pop(true) } } }
  quick("Thread.new") { measure(Thread) { Thread.new { 1 } } }
  quick("Thread.pass") { measure(nil) { Thread.pass } }
  waits("Thread.stop") do
    stopped = nil
    later { stopped.wakeup }
    measure(nil) do
      stopped = Thread.current
      Thread.stop
    end
  end
  waits("Ractor#value", "Ractor#take before 4.0") do
    ractor = lasting_ractor
    measure(1) { ractor.respond_to?(:value) ? ractor.value : ractor.take }
  end
  waits("Ractor.receive") do
    main = Ractor.current
    later { main.send(1) }
    measure(1) { Ractor.receive }
  end
  waits("Ractor.select") do
    ractor = lasting_ractor
    measure(Array) { Ractor.select(ractor) }
  end
  quick("Ractor#send") do
    ractor = Ractor.new { Ractor.receive }
    measure(ractor) { ractor.send(1) }
  end
end
