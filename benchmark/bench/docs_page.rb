# frozen_string_literal: true

# Puts a benchmark's figures between the two marks of its page, docs/benchmarks/NAME.md, and its charts beside the
# page. Figures get there in no other way. The summary, docs/benchmarks.md, repeats some of them; a test
# (test/programs/benchmark_pages_test.rb) fails where a figure of the summary is not on the benchmark's page.
#
#   Bench::DocsPage.new.update("runtime", machine, markdown, {"" => svg})
require_relative "load_path"
require_relative "markdown"

module Bench
  class DocsPage
    FOLDER = File.join(LoadPath::ROOT, "docs", "benchmarks")

    # @param folder [String] the folder with a page for each benchmark
    def initialize(folder = FOLDER)
      @folder = folder
    end

    # @param name [String] of the benchmark
    # @param machine [Hash{String=>String}]
    # @param body [String] Markdown
    # @param charts [Hash{String=>String}] SVG by the suffix of the file's name
    # @raise [RuntimeError] where the page is missing, or has no marks
    def update(name, machine, body, charts)
      path = File.join(@folder, "#{name}.md")
      page = File.exist?(path) ? File.read(path) : ""
      place = /(<!-- figures: #{name} -->\n).*?(<!-- end -->)/m
      raise "docs/benchmarks/#{name}.md has no line \"<!-- figures: #{name} -->\"; add it, with \"<!-- end -->\" below" unless page.match?(place)
      images = charts.map { |suffix, svg| image(name, suffix, svg) }
      File.write(path, page.sub(place) { "#{$1}\n#{Markdown.list(machine)}\n#{images.join}\n#{body}\n#{$2}" })
    end

    private

    def image(name, suffix, svg)
      File.write(File.join(@folder, "#{name}#{suffix}.svg"), svg)
      "![#{name}#{suffix}](#{name}#{suffix}.svg)\n"
    end
  end
end
