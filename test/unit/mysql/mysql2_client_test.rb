# frozen_string_literal: true

require "test_helper"

# The client of the gem mysql2, of which a thread and a fiber must not use the same at a time.
class MySQL2ClientTest < Minitest::Test
  # In the place of a Mysql2::Client.
  class Driver
    attr_reader :socket, :pings

    def initialize(socket)
      @socket = socket.fileno
      @pings = 0
    end

    def read_timeout = nil

    def ping = (@pings += 1) > 0
  end

  # A thread of this pool has taken the call when its fiber leaves, and begins it later.
  class LatePool
    def call(&block)
      @block = block
      raise NeverBlock::Cancelled
    end

    def begin_it = @block.call
  end

  def setup
    skip "mysql2 is not among the gems here" unless Gem.loaded_specs.key?("mysql2")
    require "neverblock/mysql/mysql2"
  end

  def test_a_call_whose_fiber_has_left_does_not_begin
    ours, theirs = UNIXSocket.pair
    driver = Driver.new(theirs)
    client = NeverBlock::MySQL::Mysql2Client.new({}) { driver }
    pool = LatePool.new
    instead_of_threads(pool) { assert_raises(NeverBlock::Cancelled) { client.ping } }
    pool.begin_it
    assert_equal 0, driver.pings
    assert client.ping, "the next one does"
  ensure
    [ours, theirs].compact.each(&:close)
  end

  private

  def instead_of_threads(pool)
    threads = NeverBlock::ThreadPool
    threads.singleton_class.class_eval do
      alias_method :offload_before_test, :offload
      remove_method :offload
      define_method(:offload) { pool }
    end
    yield
  ensure
    threads.singleton_class.class_eval do
      remove_method :offload
      alias_method :offload, :offload_before_test
      remove_method :offload_before_test
    end
  end
end
