# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "neverblock/server/crowd"
require "tempfile"

# What check-config says of a machine whose processors other processes want too.
class ServerCrowdTest < Minitest::Test
  NOTE = "7.4 threads want this machine's 2 processors (load average of five minutes). Each process of this server gets the share of one " \
    "thread, however many requests it has; here there are 1. More workers help, and so does a weight: docs/sizing.md, \"A machine that is shared\""

  def test_more_threads_than_processors
    assert_equal NOTE, note(1, load: 7.44)
    assert_match(/here there are 3\./, note(3, load: 7.44))
  end

  def test_nothing_to_say
    assert_nil note(1, load: 2.0)
    assert_nil note(4, load: 7.44), "two workers for each processor are enough"
    assert_nil note(1, loads: "/no/such/file"), "not Linux"
  end

  def test_this_machine
    assert_includes [NilClass, String], NeverBlock::Server::Crowd.note(1).class
    assert_nil NeverBlock::Server::Crowd.note(1_000_000)
  end

  # The page that the note names.
  def test_the_page
    assert_includes File.read(File.join(NeverBlockTest::ROOT, "docs/sizing.md")), "\n## #{NOTE[/"(.*)"/, 1]}\n"
  end

  private

  def note(processes, load: nil, loads: nil)
    Tempfile.create do |file|
      file.write("0.10 #{load} 0.20 1/80 4711\n")
      file.close
      NeverBlock::Server::Crowd.note(processes, processors: 2, loads: loads || file.path)
    end
  end
end
