# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "socket"

# The errors of IO#fsync and IO#fdatasync in a loop are core's own.
class FsyncPatchTest < Minitest::Test
  KINDS = {
    "a pipe" => -> { IO.pipe }, "a unix socket" => -> { UNIXSocket.pair }, "a device" => -> { [File.open(File::NULL)] },
    "a popen" => -> { [IO.popen("cat", "r+")] }
  }.freeze

  KINDS.each do |name, open|
    define_method(:"test_#{name.tr(" ", "_")}_has_the_message_of_core") do
      ios = open.call
      %i[fsync fdatasync].each do |sync|
        assert_equal refusal(ios.last, sync), NeverBlock.run { refusal(ios.last, sync) }
      end
    ensure
      ios.each(&:close)
    end
  end

  private

  def refusal(io, sync) = assert_raises(Errno::EINVAL) { io.public_send(sync) }.message
end
