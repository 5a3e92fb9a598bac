# frozen_string_literal: true

require "test_helper"
require "neverblock/server/cluster/channel"

# Messages between the processes of a cluster.
class ClusterChannelTest < Minitest::Test
  Channel = NeverBlock::Server::Cluster::Channel

  def setup
    @ours, @theirs = Channel.pair
  end

  def teardown = [@ours, @theirs].each { |channel| channel.close unless channel.io.closed? }

  def test_messages_arrive_in_order_with_their_descriptors
    reader, writer = IO.pipe
    assert @ours.send({do: "fork", slot: 1}, writer)
    assert @ours.send({do: "end"})
    message, ios = @theirs.receive
    assert_equal({do: "fork", slot: 1}, message)
    ios.first.write("through it")
    [*ios, writer].each(&:close)
    assert_equal "through it", reader.read
    assert_equal [{do: "end"}, []], @theirs.receive
  ensure
    reader&.close
  end

  def test_a_long_message_arrives_whole
    text = "x" * 500_000
    sender = Thread.new { @ours.send({text:}) }
    assert_equal text, @theirs.receive.first[:text]
    assert sender.value
  end

  # An app's exception may have any message. A message that its receiver refuses would end the channel.
  def test_a_text_is_cut_before_the_message_is_too_long
    text = "\u0001" * (Channel::LONGEST_TEXT + 1)
    sender = Thread.new { @ours.send({text:}) }
    assert_equal Channel::LONGEST_TEXT, @theirs.receive.first[:text].size
    assert sender.value
  end

  def test_a_text_that_is_no_utf_8_is_made_readable
    @ours.send({message: "no \xFF way"})
    assert_equal 'no \xFF way', @theirs.receive.first[:message]
  end

  def test_the_end_of_the_other_process
    @theirs.close
    assert_nil @ours.receive
    refute @ours.send({do: "end"})
    refute @theirs.send({do: "end"}), "its own end"
  end

  # Half a message, one that is longer than any of ours, and no JSON.
  def test_what_is_no_message_ends_the_channel
    ["\0\0", [10, 0].pack("NC") + "{\"do\":", [Channel::LONGEST + 1, 0].pack("NC"), [3, 0].pack("NC") + "{{{", [2, 1].pack("NC") + "{}x"].each do |bytes|
      ours, theirs = Channel.pair
      theirs.io.write(bytes)
      theirs.close
      assert_nil ours.receive, bytes.inspect
    ensure
      ours&.close
    end
  end

  def test_a_descriptor_that_was_inherited
    number = @theirs.io.dup.tap { |io| io.autoclose = false }.fileno
    channel = Channel.inherited(number)
    assert_predicate channel.io, :close_on_exec?
    @ours.send({do: "end"})
    assert_equal({do: "end"}, channel.receive.first)
  ensure
    channel&.close
  end
end
