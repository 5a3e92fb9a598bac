# frozen_string_literal: true

module NeverBlockTest
  module Effects
    # The slow resolver's gate: see slow_getaddrinfo.c.
    module Gates
      def questions = File.exist?(file = ENV.fetch("NEVERBLOCK_TEST_QUESTIONS")) ? File.readlines(file).size : 0

      # Lets the resolver answer. Its threads finish unheard, and then nothing is left of them.
      def check_answers
        gate = ENV.fetch("NEVERBLOCK_TEST_GATE")
        File.write(gate, "")
        assert_equal "127.0.0.1", Addrinfo.getaddrinfo("slow.test", 80, :INET, :STREAM).first.ip_address
        assert_kind_of String, Addrinfo.tcp("127.0.0.1", 80).getnameinfo.first
        pass_until("its thread to end") { Fiber.scheduler.statistics[:jobs].zero? }
      ensure
        File.delete(gate)
      end
    end
    Cell.include Gates

    row "`Addrinfo.getaddrinfo`, `Socket.getaddrinfo`, `UDPSocket#send` by name", :goes_on, names: true, calls: [
      -> { Addrinfo.getaddrinfo("slow.test", 80) }, -> { Socket.getaddrinfo("slow.test", 80) }, -> { close_finally(UDPSocket.new).send("a datagram", 0, "slow.test", 80) }
    ] do |act|
      before = questions
      operation(:block) { instance_exec(&act) }
      under_way { questions > before }
      check { check_answers }
    end

    row "`TCPSocket.new`, `Socket.tcp` by name, while the name is looked up", :goes_on, names: true, calls: [TCPSocket.method(:new), Socket.method(:tcp)] do |act|
      before = questions
      operation(%i[block select]) { act.call("slow.test", 1) }
      under_way { questions > before }
      check { check_answers }
    end

    row "`Addrinfo#getnameinfo`, `Socket.getnameinfo`", :goes_on, names: true,
      calls: [-> { Addrinfo.tcp("127.0.0.1", 80).getnameinfo }, -> { Socket.getnameinfo(["AF_INET", 80, "127.0.0.1"]) }] do |act|
      operation(:job) { act.call }
      check { check_answers }
    end
  end
end
