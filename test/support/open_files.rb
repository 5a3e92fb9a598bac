# frozen_string_literal: true

module NeverBlockTest
  # The files that this process has open, by their paths. The path of a removed one ends in "(deleted)".
  #
  #   include NeverBlockTest::OpenFiles
  #
  #   open_files.grep(/neverblock-cache/).size
  module OpenFiles
    private

    # @return [Array<String>] one for each descriptor
    def open_files
      Dir.children("/proc/self/fd").filter_map do |number|
        File.readlink("/proc/self/fd/#{number}")
      rescue Errno::ENOENT # the descriptor that lists them, or one that was just closed
        nil
      end
    end
  end
end
