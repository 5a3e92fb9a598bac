# frozen_string_literal: true

require "test_helper"
require "neverblock"

class ConnectionPoolWrapperTest < Minitest::Test
  # A client.
  class Client
    def get(key, prefix: "", &block) = block ? block.call(key) : "#{prefix}#{key}"

    def eval(text) = "not #{text}"

    private

    def secret = :secret
  end

  def setup
    @pool = NeverBlock::ConnectionPool.new(size: 2) { Client.new }
    @wrapper = NeverBlock::ConnectionPool::Wrapper.new(pool: @pool)
  end

  def test_calls_go_to_a_connection
    assert_equal ["a:b", "B", "not 1"], [@wrapper.get("b", prefix: "a:"), @wrapper.get("b", &:upcase), @wrapper.eval("1")]
    assert_kind_of Client, @wrapper
    assert_equal [1, 2], [@pool.idle, @wrapper.pool_available]
    assert_raises(NoMethodError) { @wrapper.secret }
  end

  def test_several_calls_on_one_connection
    @wrapper.with { |client| assert_same client, @pool.checkout }
    assert_equal [2, @pool], [@wrapper.pool_size, @wrapper.wrapped_pool]
  end

  def test_what_it_responds_to
    assert_respond_to @wrapper, :get
    assert_respond_to @wrapper, :with
    assert_respond_to @wrapper, "wrapped_pool"
    refute_respond_to @wrapper, :set
    refute_respond_to @wrapper, :secret
    assert @wrapper.respond_to?(:secret, true)
  end

  def test_a_wrapper_with_a_pool_of_its_own
    wrapper = NeverBlock::ConnectionPool.wrap(size: 1) { Client.new }
    assert_equal "b", wrapper.get("b")
    closed = []
    wrapper.pool_shutdown { |client| closed << client.class }
    assert_equal [[Client], 1], [closed, wrapper.pool_size]
  end
end
