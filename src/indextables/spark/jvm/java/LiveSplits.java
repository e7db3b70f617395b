package indextables.spark;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The live splits of a table at one version, named by the log: no directory is ever listed. Spark evaluates partition
 * filters exactly; the log excludes splits by other filters as far as it can. Spark trusts the footer of a Parquet file,
 * so the seal of a split is verified once in this process, before a scan reads it.
 */
public final class LiveSplits implements FileIndex {
    private static final int ALL_AT_ONCE = 1 << 27;
    private static final int MOST_VERIFIED = 1 << 20;
    /** Paths and lengths of splits with verified seals. */
    private static final Set VERIFIED = ConcurrentHashMap.newKeySet();

    private final Path root;
    private final String version;
    private final StructType partitionSchema;
    private final FileStatus[] files;
    private final InternalRow[] partitions;
    private final int numLive;
    private final Function mayMatch;
    private final Function choose;
    private final Function verify;
    /** For other kinds of scans; null if they are not needed. */
    PrivateScan.Opened opened;
    private final String appliedFilters;
    /** Why these splits are read, for EXPLAIN. */
    private final String reason;
    private final int[] numbers;
    /** Whether each split is verified, by index; shared by all copies that were pruned from one. */
    private final boolean[] verified;

    /**
     * `rows` hold path, size and time of the splits to read, then their partition values. `mayMatch` takes predicates as
     * JSON texts, and returns one byte a split, 0 if no row can match. `choose` takes the same, and returns a
     * `FilterChoice`. `verify` takes the indexes of splits as four-byte
     * integers, and returns the text of an error if one of them is damaged.
     */
    public LiveSplits(
        String root, String version, StructType partitionSchema, List rows, int numLive, Function mayMatch,
        Function choose, Function verify) {
        this.root = new Path(root);
        this.version = version;
        this.partitionSchema = partitionSchema;
        this.mayMatch = mayMatch;
        this.choose = choose;
        this.verify = verify;
        this.appliedFilters = "";
        this.reason = "";
        this.numLive = numLive;
        this.files = new FileStatus[rows.size()];
        this.partitions = new InternalRow[rows.size()];
        this.numbers = new int[rows.size()];
        this.verified = new boolean[rows.size()];
        String prefix = this.root.toUri().getPath();
        for (int i = 0; i < rows.size(); i++) {
            InternalRow row = (InternalRow) rows.get(i);
            String path = (prefix.endsWith("/") ? prefix : prefix + "/") + row.getUTF8String(0).toString();
            Path place = new Path(this.root.toUri().getScheme(), this.root.toUri().getAuthority(), path);
            files[i] = new FileStatus(row.getLong(1), false, 1, ALL_AT_ONCE, row.getLong(2), place);
            partitions[i] = values(row);
            numbers[i] = i;
        }
    }

    private LiveSplits(LiveSplits all, List kept, String appliedFilters, String reason) {
        this.root = all.root;
        this.version = all.version;
        this.partitionSchema = all.partitionSchema;
        this.mayMatch = all.mayMatch;
        this.choose = all.choose;
        this.reason = reason;
        this.verify = all.verify;
        this.verified = all.verified;
        this.opened = all.opened;
        this.numLive = all.numLive;
        this.appliedFilters = appliedFilters;
        this.files = new FileStatus[kept.size()];
        this.partitions = new InternalRow[kept.size()];
        this.numbers = new int[kept.size()];
        for (int i = 0; i < kept.size(); i++) {
            int at = ((Integer) kept.get(i)).intValue();
            files[i] = all.files[at];
            partitions[i] = all.partitions[at];
            numbers[i] = all.numbers[at];
        }
    }

    private InternalRow values(InternalRow row) {
        Object[] values = new Object[partitionSchema.length()];
        for (int i = 0; i < values.length; i++) {
            values[i] = row.isNullAt(i + 3) ? null : row.get(i + 3, partitionSchema.fields()[i].dataType());
        }
        return new GenericInternalRow(values);
    }

    /** The splits that may hold rows that match all filters. */
    public LiveSplits pruned(List filters) {
        String asked = filters.toString();
        if (asked.equals(appliedFilters)) return this;
        List conjuncts = new ArrayList();
        List others = new ArrayList();
        for (int i = 0; i < filters.size(); i++) {
            Expression filter = (Expression) filters.get(i);
            if (SubqueryExpression.hasSubquery(filter) || !filter.deterministic() || !canEvaluate(filter)) continue;
            (isOnPartitions(filter) ? conjuncts : others).add(filter);
        }
        return new LiveSplits(this, kept(conjuncts, mask(others)), asked, "");
    }

    /** The plan of the driver for all filters that it understands; null if it knows no more than the log. */
    FilterChoice chosen(List filters) {
        List hints = new ArrayList();
        for (int i = 0; i < filters.size(); i++) {
            Expression filter = (Expression) filters.get(i);
            if (!SubqueryExpression.hasSubquery(filter) && filter.deterministic()) addHint(filter, hints);
        }
        return hints.isEmpty() ? null : FilterChoice.of(hints, choose);
    }

    /** The splits that a choice leaves. */
    LiveSplits narrowed(FilterChoice choice) {
        return new LiveSplits(this, kept(new ArrayList(), choice.mask), appliedFilters, choice.reason);
    }

    /** Whether Java can evaluate a whole expression: functions of Python run in separate processes. */
    private static boolean canEvaluate(Expression expression) {
        if (expression instanceof Attribute) return true;
        if (expression instanceof Unevaluable) return false;
        List children = CollectionConverters.asJava(expression.children());
        for (int i = 0; i < children.size(); i++) if (!canEvaluate((Expression) children.get(i))) return false;
        return true;
    }

    private boolean isOnPartitions(Expression filter) {
        List references = CollectionConverters.asJava(filter.references().toSeq());
        for (int i = 0; i < references.size(); i++) {
            if (ordinal(((Attribute) references.get(i)).name()) < 0) return false;
        }
        return !references.isEmpty();
    }

    private int ordinal(String name) {
        for (int i = 0; i < partitionSchema.length(); i++) {
            if (partitionSchema.fields()[i].name().equalsIgnoreCase(name)) return i;
        }
        return -1;
    }

    /** The indexes of the splits that match partition filters and that other filters do not exclude. */
    private List kept(List partitionFilters, byte[] mask) {
        BasePredicate[] predicates = new BasePredicate[partitionFilters.size()];
        for (int i = 0; i < predicates.length; i++) predicates[i] = bound((Expression) partitionFilters.get(i));
        List kept = new ArrayList();
        for (int i = 0; i < files.length; i++) {
            boolean isKept = mask == null || mask[numbers[i]] != 0;
            for (int j = 0; isKept && j < predicates.length; j++) isKept = predicates[j].eval(partitions[i]);
            if (isKept) kept.add(Integer.valueOf(i));
        }
        return kept;
    }

    /** A filter on the values of a partition. Columns are matched by name. */
    private BasePredicate bound(Expression filter) {
        Attribute[] inputs = (Attribute[]) CollectionConverters.asJava(
            org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(partitionSchema)).toArray(new Attribute[0]);
        List references = CollectionConverters.asJava(filter.references().toSeq());
        for (int i = 0; i < references.size(); i++) {
            Attribute reference = (Attribute) references.get(i);
            inputs[ordinal(reference.name())] = reference;
        }
        BasePredicate predicate = Predicate$.MODULE$.create(
            filter, CollectionConverters.asScala(Arrays.asList((Object[]) inputs)).toSeq());
        predicate.initialize(0);
        return predicate;
    }

    private byte[] mask(List filters) {
        List hints = new ArrayList();
        for (int i = 0; i < filters.size(); i++) addHint((Expression) filters.get(i), hints);
        return hints.isEmpty() ? null : (byte[]) mayMatch.apply(Texts.json(hints));
    }

    private static void addHint(Expression expression, List hints) {
        scala.Option filter = DataSourceStrategy$.MODULE$.translateFilter(expression, true);
        String hint = filter.isEmpty() ? null : FilterText.of((Filter) filter.get());
        if (hint != null) hints.add(hint);
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        List conjuncts = new ArrayList();
        conjuncts.addAll(CollectionConverters.asJava(partitionFilters));
        List kept = kept(conjuncts, mask(CollectionConverters.asJava(dataFilters)));
        verify(kept);
        Map directories = new LinkedHashMap();
        for (int i = 0; i < kept.size(); i++) {
            int at = ((Integer) kept.get(i)).intValue();
            List found = (List) directories.get(partitions[at]);
            if (found == null) {
                found = new ArrayList();
                directories.put(partitions[at], found);
            }
            found.add(files[at]);
        }
        List answer = new ArrayList();
        Object[] entries = directories.entrySet().toArray();
        for (int i = 0; i < entries.length; i++) {
            Map.Entry entry = (Map.Entry) entries[i];
            FileStatus[] found = (FileStatus[]) ((List) entry.getValue()).toArray(new FileStatus[0]);
            answer.add(PartitionDirectory.apply((InternalRow) entry.getKey(), found));
        }
        return CollectionConverters.asScala(answer).toSeq();
    }

    /** Refuse splits with damaged footers: Spark would skip rows by their statistics. */
    private void verify(List kept) {
        List names = new ArrayList();
        ByteBuffer asked = ByteBuffer.allocate(4 * kept.size());
        for (int i = 0; i < kept.size(); i++) {
            int at = ((Integer) kept.get(i)).intValue();
            if (verified[numbers[at]]) continue;
            String name = files[at].getLen() + " " + files[at].getPath();
            if (VERIFIED.contains(name)) {
                verified[numbers[at]] = true;
                continue;
            }
            names.add(name);
            asked.putInt(numbers[at]);
        }
        if (names.isEmpty()) return;
        Texts.checked(verify.apply(Arrays.copyOf(asked.array(), asked.position())));
        if (VERIFIED.size() > MOST_VERIFIED) VERIFIED.clear();
        VERIFIED.addAll(names);
        for (int i = 0; i < kept.size(); i++) verified[numbers[((Integer) kept.get(i)).intValue()]] = true;
    }

    public Seq rootPaths() {
        List paths = new ArrayList();
        String note = files.length + " of " + numLive + " splits of version " + version;
        paths.add(new TablePath(root, reason.isEmpty() ? note : note + " (" + reason + ")"));
        return CollectionConverters.asScala(paths).toSeq();
    }

    public String[] inputFiles() {
        String[] paths = new String[files.length];
        for (int i = 0; i < files.length; i++) paths[i] = files[i].getPath().toUri().toString();
        return paths;
    }

    /** A version never changes. */
    public void refresh() {}

    public long sizeInBytes() {
        long total = 0;
        for (int i = 0; i < files.length; i++) total += files[i].getLen();
        return total;
    }

    public StructType partitionSchema() {
        return partitionSchema;
    }

    public scala.Option metadataOpsTimeNs() {
        return scala.Option.empty();
    }

    public boolean isTimeTravel() {
        return true;
    }

    public boolean equals(Object other) {
        if (!(other instanceof LiveSplits)) return false;
        LiveSplits splits = (LiveSplits) other;
        return root.equals(splits.root) && version.equals(splits.version) && Arrays.equals(files, splits.files);
    }

    public int hashCode() {
        return root.hashCode() * 31 + version.hashCode() + files.length;
    }

    public String toString() {
        return "LiveSplits(" + root + ", version " + version + ")";
    }

    /** The table's location with a note for EXPLAIN on the splits that are read: first, because Spark truncates long texts. */
    private static final class TablePath extends Path {
        private final String note;

        TablePath(Path path, String note) {
            super(path.toUri());
            this.note = note;
        }

        public String toString() {
            return note + " of " + super.toString();
        }
    }
}
