# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "tmpdir"

# The number of the machine's processors that a container may use.
class ServerProcessorsTest < Minitest::Test
  # Control groups, version 2 and 1.
  {{"cpu.max" => "max 100000"} => 8, {"cpu.max" => "200000 100000"} => 2, {"cpu.max" => "150000 100000"} => 2,
   {"cpu.max" => "10000 100000"} => 1, {"cpu.max" => "9900000 100000"} => 8, {"cpu.max" => "nonsense"} => 8, {} => 8,
   {"cpu/cpu.cfs_quota_us" => "300000", "cpu/cpu.cfs_period_us" => "100000"} => 3,
   {"cpu/cpu.cfs_quota_us" => "-1", "cpu/cpu.cfs_period_us" => "100000"} => 8}.each do |files, count|
    define_method(:"test_processors_with_#{files}") do
      Dir.mktmpdir("nb") do |folder|
        Dir.mkdir("#{folder}/cpu")
        files.each { |name, text| File.write(File.join(folder, name), "#{text}\n") }
        assert_equal count, NeverBlock::Server::Processors.count(root: folder, here: 8)
      end
    end
  end
end
