# frozen_string_literal: true

require "test_helper"

# A layer of the extension includes files of itself and of the layers below it, and no other.
class LayersTest < Minitest::Test
  SOURCE = File.join(NeverBlockTest::ROOT, "ext", "neverblock")

  # Folder => the folders that it may include.
  LAYERS = {
    "engine" => [],
    "scheduler" => %w[engine],
    "postgres" => %w[scheduler engine],
    "http/protocol" => [],
    "http/transport" => %w[http/protocol engine],
    "http/app" => %w[http/transport http/protocol scheduler engine]
  }.freeze

  LAYERS.each do |layer, below|
    define_method("test_#{layer.tr("/", "_")}_includes_only_what_is_below_it") do
      files = Dir["#{layer}/**/*.{c,h}", base: SOURCE]
      refute_empty files
      files.each do |file|
        includes(file, '"').each do |path|
          included = File.expand_path(path, File.join(SOURCE, File.dirname(file))).delete_prefix("#{SOURCE}/")
          assert [layer, *below].any? { |folder| included.start_with?("#{folder}/") }, "#{file} includes #{included}, which is not below #{layer}"
        end
      end
    end
  end

  def test_the_protocol_knows_no_ruby
    Dir["http/protocol/**/*.{c,h}", base: SOURCE].each do |file|
      assert_empty includes(file, "<").grep(/ruby/), file
      refute_match(/\bVALUE\b|\brb_/, File.read(File.join(SOURCE, file)), file)
    end
  end

  def test_every_folder_has_a_layer
    folders = Dir["*/**/*.c", base: SOURCE].map { |path| File.dirname(path) }.uniq
    assert_empty(folders.reject { |folder| LAYERS.keys.any? { |layer| "#{folder}/".start_with?("#{layer}/") } })
  end

  private

  def includes(file, quote) = File.read(File.join(SOURCE, file)).scan(/^\s*#\s*include\s*#{quote}([^">]+)/).flatten
end
